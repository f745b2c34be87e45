"""Observation of the job: timeline, counters, the last operations, versions."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import hvdlite
from hvdlite import _core

__all__ = ["metrics", "recent_operations", "start_timeline", "stop_timeline"]


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Starts to write what happens to each tensor to a file that chrome://tracing and Perfetto
    open.

    Rank 0 writes. With HVDLITE_TIMELINE_RANKS=all every rank writes a file of its own.
    """
    _core.start_timeline(file_path, mark_cycles)


def stop_timeline() -> None:
    """Completes the file. Does nothing if no timeline is being written."""
    _core.stop_timeline()


def metrics() -> dict[str, Any]:
    """Returns this rank's counters since init(). On rank 0, `seconds_waited_for_rank` shows which
    ranks the others wait for."""
    import json  # init() needs this module, and not that one

    text = _core.describe("metrics")
    return dict(json.loads(text)) if text else {}


def recent_operations() -> list[dict[str, Any]]:
    """Returns the last operations of this rank (HVDLITE_RECORDER_ENTRIES of them), oldest first.
    Works after a failure, too."""
    import json

    text = _core.describe("recent")
    return list(json.loads(text)) if text else []


# ---- What the last operations tell

_LOOK_SHARE = 0.0005


class RecentSummary(NamedTuple):
    """What the list tells. `operations`: how many there were when it was read."""

    operations: int = 0
    per_step: int | None = None
    waiting: float | None = None
    last: str = ""


class Recent:
    """Reads the list of recent operations so rarely that it costs 0.05 % of a core.

    Reading the counters costs microseconds; reading this list costs milliseconds.
    """

    wants_all = False  # also what has come since the last look, at the end

    def __init__(self) -> None:
        self._seen = RecentSummary()
        self._look_again = 0.0
        self.details: Mapping[str, Any] = {}  # of Detailed

    def look(self, operations: int, last: bool = False) -> RecentSummary:
        """`operations`: the counter of that name now. If it has not grown, nor has the list.
        `last`: no look comes after this one."""
        is_due = time.monotonic() >= self._look_again or (last and self.wants_all)
        if operations > self._seen.operations and is_due:
            before = time.thread_time()
            recent = recent_operations()
            self.take(recent)
            self._seen = RecentSummary(
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
    if not distances:
        return None
    import statistics  # imports much

    return statistics.median_low(distances[-len(seen) :])


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


# ---- Versions

# Libraries whose versions matter if the program has imported them.
_LIBRARIES = ("numpy", "torch", "tensorflow", "keras", "jax", "mpi4py")


def versions() -> dict[str, str]:
    """Of hvdlite, Python, and the libraries that this program has imported."""
    found = {"hvdlite": hvdlite.__version__, "python": sys.version.split()[0]}
    for name in _LIBRARIES:
        module = sys.modules.get(name)
        version = getattr(module, "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found
