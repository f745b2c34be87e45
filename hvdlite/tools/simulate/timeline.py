"""The schedule that a recorded timeline shows. Pure: text in, schedule out.

The timeline is the file of HVDLITE_TIMELINE. Its rank's own requests say when each gradient was
ready. The end of a step's last allreduce is where the next step begins: from there on the rank
computes alone until its last gradient is ready, however long it waited for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from hvdlite.base import untrusted
from hvdlite.observe.timeline.reading import TimelineOperation, check, operations
from hvdlite.tools.simulate.schedule import Gradient, Schedule

_WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
_PHASE = "ALLREDUCE"
# If all gradients are ready within this share of a step, they were reduced after it.
_AT_ONCE = 0.02


@dataclass(frozen=True)
class Recording:
    schedule: Schedule
    steps: int
    jitter: float  # the scatter of the steps' computing times, as a share
    overlapped: bool  # gradients were reduced during the backward pass


def read(text: str) -> Recording:
    """Raises ValueError if the text is no timeline, or shows too few steps."""
    try:
        events = untrusted.parsed(text)
    except ValueError as error:
        raise ValueError(f"this is no timeline: {error}") from None
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise ValueError("this is no timeline: it is not a list of events")
    check(events)
    steps = _steps(_operations(events))
    if len(steps) < 2:
        raise ValueError(
            "the timeline shows no two steps: the same gradients have to return under their names, "
            "as those of a DistributedOptimizer do"
        )
    return _recording(steps)


def _operations(events: Sequence[Mapping[str, Any]]) -> list[TimelineOperation]:
    """The completed allreduces of floating-point tensors that this rank has asked for."""
    return [
        operation
        for operation in operations(events)
        if operation.kind == _PHASE
        and operation.ended is not None
        and operation.asked is not None
        and _size(operation) > 0
    ]


def _size(operation: TimelineOperation) -> float:
    """0 for tensors that are no floating-point numbers."""
    return _WIDTHS.get(operation.dtype, 0) * operation.numbers


def _steps(operations: Sequence[TimelineOperation]) -> list[list[TimelineOperation]]:
    """The operations of each step. A step has each name once. Names that return less often than
    the one with the most bytes belong to no step."""
    by_name: dict[str, list[TimelineOperation]] = {}
    for operation in operations:
        by_name.setdefault(operation.name, []).append(operation)
    if not by_name:
        return []
    largest = max(by_name.values(), key=lambda times: _size(times[0]) * len(times))
    regular = [times for times in by_name.values() if len(times) >= len(largest) - 1]
    count = min(len(times) for times in regular)
    return [[times[step] for times in regular] for step in range(count)]


def _recording(steps: Sequence[Sequence[TimelineOperation]]) -> Recording:
    ready: list[list[float]] = []
    for before, step in zip(steps, steps[1:], strict=False):
        began = max(operation.ended or 0.0 for operation in before)
        ready.append([max(0.0, (o.asked or 0.0) - began) * 1e-6 for o in step])
    if len(ready) > 2:
        ready = ready[1:]  # the first one often still warms up
    computed = [max(times) for times in ready]
    typical = [median(times) for times in zip(*ready, strict=True)]
    gradients = sorted(
        (Gradient(o.name, _size(o), at) for o, at in zip(steps[0], typical, strict=True)),
        key=lambda gradient: gradient.ready,
    )
    seconds = max(typical)
    if seconds <= 0:
        raise ValueError("the timeline shows no computation between its steps")
    overlapped = min(typical) < (1 - _AT_ONCE) * seconds
    return Recording(
        Schedule(tuple(gradients), seconds), len(steps), _scatter(computed), overlapped
    )


def _scatter(times: Sequence[float]) -> float:
    """The standard deviation as a share of the mean, from the median of the distances: single
    steps that save a checkpoint do not count."""
    middle = median(times)
    return 1.4826 * median(abs(time - middle) for time in times) / middle
