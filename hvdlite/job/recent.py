"""What the list of past operations tells, looked at so rarely that it costs 0.05 % of a core.

Reading the counters costs microseconds; reading this list costs milliseconds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hvdlite.job import observe

_LOOK_SHARE = 0.0005


@dataclass(frozen=True)
class Seen:
    """`operations`: how many there were then."""

    operations: int = 0
    per_step: int | None = None
    waiting: float | None = None
    last: str = ""


class Recent:
    """The last look at the list, which is repeated when it is time."""

    wants_all = False  # also what has come since the last look, at the end

    def __init__(self) -> None:
        self._seen = Seen()
        self._look_again = 0.0
        self.details: Mapping[str, Any] = {}  # of Detailed

    def look(self, operations: int, last: bool = False) -> Seen:
        """`operations`: the counter of that name now. If it has not grown, nor has the list.
        `last`: no look comes after this one."""
        is_due = time.monotonic() >= self._look_again or (last and self.wants_all)
        if operations > self._seen.operations and is_due:
            before = time.thread_time()
            recent = observe.recent_operations()
            self.take(recent)
            self._seen = Seen(
                operations,
                operations_per_step(recent),
                share_waiting(recent),
                recent[-1]["name"] if recent else "",
            )
            self._look_again = time.monotonic() + (time.thread_time() - before) / _LOOK_SHARE
        return self._seen

    def take(self, recent: Sequence[dict[str, Any]]) -> None:
        """For a class that wants more of the list."""


def operations_per_step(recent: Sequence[dict[str, Any]]) -> int | None:
    """Returns how many operations lie between one use of a name and the next: gradients have the
    same names in every step. Returns None if names do not return."""
    seen: dict[tuple[int, str], int] = {}
    distances: list[int] = []
    for operation in recent:
        name, number = (operation["process_set"], operation["name"]), operation["number"]
        if name in seen:
            distances.append(number - seen[name])
        seen[name] = number
    return statistics.median_low(distances[-len(seen) :]) if distances else None


def share_waiting(recent: Sequence[dict[str, Any]]) -> float | None:
    """Returns the share of the time of these operations in which this rank had submitted something
    that others had not."""
    if not recent:
        return None
    intervals = sorted((operation["submitted"], operation["agreed"]) for operation in recent)
    span = max(operation["done"] for operation in recent) - intervals[0][0]
    waited, until = 0.0, intervals[0][0]
    for submitted, agreed in intervals:
        waited += max(0.0, agreed - max(submitted, until))
        until = max(until, agreed)
    return waited / span if span > 0 else None
