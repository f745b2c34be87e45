"""How busy the machine is: the limits of tests are those of a machine of its own."""

from __future__ import annotations

import os

SLOWEST = 6.0
# As for the C++ tests: whoever runs them where others work, too, asks for more time at once. Who of the machine's hosts works
# beside it shows in no load average.
PATIENCE = "HVDLITE_TEST_PATIENCE"
_patience = float(os.environ.get(PATIENCE, "1"))  # at once: tests change their environment


def slowness() -> float:
    """How many times as long as on a machine of its own something takes now; 1 while up to two programs want each processor,
    or whatever was asked for."""
    load = os.getloadavg()[0] / (2 * (os.cpu_count() or 1))
    return min(SLOWEST, max(_patience, load))
