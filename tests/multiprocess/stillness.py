"""A process that waits, and for nothing that is on its way: what can be seen from outside, by its threads' states.

A thread that has no processor, on a busy machine, is runnable: it does not look as if it waited.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from machine import within

_APART = 0.02
_LOOKS = 3


def _seen(pid: int) -> dict[str, tuple[str, str]]:
    """Of each thread its state, and how often it has given its processor away."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        text = (task / "status").read_text()
        state = re.search(r"^State:\s+(\w)", text, re.M)
        switches = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)
        assert state and switches, text
        found[task.name] = (state[1], switches[1])
    return found


def wait_until_still(pid: int, seconds: float = 20) -> None:
    """Until all its threads have been asleep for some looks on end, without having woken up in between."""
    end = time.monotonic() + within(seconds)
    before: dict[str, tuple[str, str]] = {}
    same = 0
    while same < _LOOKS:
        assert time.monotonic() < end, f"{pid} does not come to rest: {before}"
        now = _seen(pid)
        same = same + 1 if now == before and {state for state, _ in now.values()} == {"S"} else 0
        before = now
        time.sleep(_APART)  # poll
