"""Plans: an allreduce of the same tensors again and again.

The ranks know the group by its number after the first time, so that a step costs what its bytes
cost. All ranks start new plans without a name in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.core.handles import poll, synchronize

_job = 0  # counts the jobs, and generations of an elastic job, that this process was in
_named = 0  # plans without a name that were started in this one


class Plan:
    """What plan() returns. It is in flight once at a time: start(), then wait().

    `start`: grouped_allreduce_async_ with all arguments but the tensors and the name.
    """

    def __init__(self, tensors: Sequence[Any], name: str | None, start: Callable[..., int]) -> None:
        if not isinstance(tensors, (list, tuple)):
            raise TypeError(f"expected a list of tensors, got {type(tensors).__name__}")
        if not tensors:
            raise ValueError("a plan needs at least one tensor")
        self.tensors = list(tensors)
        self._given, self._start = name, start
        self._name, self._job = "", -1
        self._handle: int | None = None

    def start(self) -> None:
        """Starts the allreduce. The tensors must not be read or written before wait() returns."""
        if self._job != _job:  # what was in flight in another job is over
            self._job, self._handle = _job, None
            self._name = _next_name() if self._given is None else self._given
        if self._handle is not None:
            raise RuntimeError(f"the plan '{self._name}' is in flight already: call wait() first")
        self._handle = self._start(self.tensors, name=self._name)

    def poll(self) -> bool:
        """Whether wait() would return at once."""
        return poll(self._in_flight())

    def wait(self) -> list[Any]:
        """Waits for the allreduce. Returns the tensors, which have the results."""
        handle = self._in_flight()
        try:
            synchronize(handle)
        finally:
            if not _goes_on(handle):  # as it does after a signal handler's exception
                self._handle = None
        return self.tensors

    def _in_flight(self) -> int:
        if self._handle is None or self._job != _job:
            raise RuntimeError("the plan is not in flight: call start() first")
        return self._handle


def _goes_on(handle: int) -> bool:
    try:
        poll(handle)
    except ValueError:  # its end was seen
        return False
    return True


def _next_name() -> str:
    """All ranks start their plans for the first time in the same order."""
    global _named
    _named += 1
    return f"plan.{_named}"


def forget_all() -> None:
    """Called after shutdown: the next job counts its plans anew."""
    global _job, _named
    _job += 1
    _named = 0
