"""A process that waits: what can be seen from outside, by its threads' states.

A thread that has no processor, on a busy machine, is runnable: it does not look as if it waited.
"""

from __future__ import annotations

import time
from pathlib import Path

from machine import within

_LOOKS = 10


def _states(pid: int) -> set[str]:
    """R, S, ...: of all threads. A thread that has just ended has none."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found.add((task / "stat").read_text().rpartition(")")[2].split()[0])
        except OSError:
            found.add("gone")
    return found


def wait_until_still(pid: int, seconds: float = 20) -> None:
    """Until all its threads have been asleep in ten looks on end. What waits may look around, too,
    for some microseconds."""
    end = time.monotonic() + within(seconds)
    asleep = 0
    while asleep < _LOOKS:
        states = _states(pid)
        assert time.monotonic() < end, f"process {pid} does not come to rest: {states}"
        asleep = asleep + 1 if states == {"S"} else 0
        time.sleep(0.005)  # poll
