"""Seconds in tests. `within` bounds what hangs, and costs nothing when all is well; what a test
waits out is written as it is.

A test waits for events. Where time itself is the promise (a heartbeat, a grace period), the
shortest span that shows it is a number in the test, never multiplied: a machine that is busy makes
nothing shorter.
"""

from __future__ import annotations

import os

# HVDLITE_TEST_PATIENCE=10: for machines that stop for long. Read at once, because tests change
# their environment.
PATIENCE_VARIABLE = "HVDLITE_TEST_PATIENCE"
PATIENCE = float(os.environ.get(PATIENCE_VARIABLE, "5"))


def within(seconds: float) -> float:
    """The upper bound for something that takes at most `seconds` on an idle machine."""
    return seconds * PATIENCE
