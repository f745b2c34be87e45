"""How busy the machine is: the limits of tests are those of a machine of its own."""

from __future__ import annotations

import os

SLOWEST = 6.0


def slowness() -> float:
    """How many times as long as on a machine of its own something takes now; 1 while up to two programs want each processor."""
    return min(SLOWEST, max(1.0, os.getloadavg()[0] / (2 * (os.cpu_count() or 1))))
