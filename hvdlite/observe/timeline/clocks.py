"""How far the clocks of two ranks are apart, from what they did together. Pure.

Ranks of one boot of a kernel share a clock. For others, each operation that exchanges data between
all ranks gives two bounds, because no rank can end it before the other has begun it:

    here    |began------ended|
    there        |began------ended|      there = here + offset

    began there - ended here  <=  offset  <=  ended there - began here

Over many operations the bounds come within twice the time of the fastest one. Clocks drift, so
each stretch of some seconds has bounds of its own.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hvdlite.observe.timeline.reading import Clock, Key, Operation, Trace

# No rank ends one of these before all have begun it. The root of a broadcast need not wait.
_TOGETHER = {"ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCESCATTER"}
STRETCH = 10e6  # microseconds


class Span(NamedTuple):
    began: float
    ended: float


@dataclass(frozen=True)
class Alignment:
    """Adds to a rank's times what makes them the reference's. `points`: a time of the rank, and
    what to add there; between two of them it is interpolated."""

    points: tuple[tuple[float, float], ...]
    error: float | None  # at most, in microseconds; None: not known
    how: str

    def shifted(self, time: float) -> float:
        at = bisect.bisect(self.points, (time,))
        if at == 0:
            return time + self.points[0][1]
        if at == len(self.points):
            return time + self.points[-1][1]
        (begin, low), (end, high) = self.points[at - 1], self.points[at]
        return time + low + (high - low) * (time - begin) / (end - begin)


def align(reference: Trace, other: Trace) -> Alignment:
    """How `other`'s times become the reference's."""
    here, there = reference.clock, other.clock
    if here.boot and here.boot == there.boot:
        shift = there.monotonic - here.monotonic
        return Alignment(((0.0, shift),), 0.0, "one clock")
    stretches = list(_stretches(_shared(reference.operations, other.operations)))
    if not stretches:
        return Alignment(((0.0, _by_the_wall(here, there)),), None, "the wall clocks")
    points = tuple((at, -(low + high) / 2) for at, low, high, _ in stretches)
    error = max((high - low) / 2 for _, low, high, _ in stretches)
    count = sum(number for *_, number in stretches)
    return Alignment(points, error, f"{count} operations")


def _by_the_wall(here: Clock, there: Clock) -> float:
    return there.epoch - here.epoch


def _shared(here: Iterable[Operation], there: Iterable[Operation]) -> list[tuple[Span, Span]]:
    mine, theirs = _together(here), _together(there)
    pairs = [(mine[key], operation) for key, operation in theirs.items() if key in mine]
    return sorted(pairs, key=lambda pair: pair[1].began)


def _together(operations: Iterable[Operation]) -> dict[Key, Span]:
    return {
        o.key: Span(o.began, o.ended)
        for o in operations
        if o.key and o.kind in _TOGETHER and o.began is not None and o.ended is not None
    }


def _stretches(
    pairs: Sequence[tuple[Span, Span]],
) -> Iterable[tuple[float, float, float, int]]:
    """The middle of each stretch in the other's time, the bounds of the offset in it, and of how
    many operations they are."""
    begin = 0
    while begin < len(pairs):
        since = pairs[begin][1].began
        end = begin
        low, high = float("-inf"), float("inf")
        while end < len(pairs) and pairs[end][1].began < since + STRETCH:
            here, there = pairs[end]
            low = max(low, there.began - here.ended)
            high = min(high, there.ended - here.began)
            end += 1
        middle = (since + pairs[end - 1][1].began) / 2
        yield middle, min(low, high), max(low, high), end - begin
        begin = end
