"""One trace from the timelines of all ranks. Pure.

The trace has the clock of the first rank given. An arrow leads from the request of the rank that
asked last, for which the others waited, to the beginning of the operation on each other rank.
Counters show how many operations each rank has in flight, and the bytes that it has communicated.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hvdlite.observe.timeline.reading import Event, Key, TimelineOperation, Trace

# Waiting for less than this is not worth an arrow.
WORTH_AN_ARROW = 10.0  # microseconds

RankOperation = tuple["Placed", TimelineOperation]


@dataclass(frozen=True)
class Placed:
    """A rank's trace on the clock of the merged one."""

    trace: Trace
    alignment: Alignment

    def at(self, time: float) -> float:
        return self.alignment.shifted(time)


@dataclass(frozen=True)
class Merged:
    events: list[Event]
    ranks: list[Placed]
    arrows: int

    def document(self) -> dict[str, Any]:
        """What Perfetto and chrome://tracing open."""
        clocks = {
            f"rank {r.trace.rank}": f"{uncertainty(r.alignment)} ({r.alignment.how})"
            for r in self.ranks
        }
        return {"traceEvents": self.events, "otherData": {"clocks": clocks}}


def merge(traces: Sequence[Trace]) -> Merged:
    """Raises ValueError if two are of the same rank."""
    ranks = [trace.rank for trace in traces]
    if twice := {rank for rank in ranks if ranks.count(rank) > 1}:
        raise ValueError(f"two of the files are timelines of rank {min(twice)}")
    reference, *others = sorted(traces, key=lambda trace: trace.rank)
    alone = Alignment(((0.0, 0.0),), 0.0, "the reference")
    placed = [Placed(reference, alone)]
    placed += [Placed(other, align(reference, other)) for other in others]
    arrows = list(_arrows(placed))
    events = [event for rank in placed for event in itertools.chain(_moved(rank), _counters(rank))]
    return Merged(events + arrows, placed, len(arrows) // 2)


def uncertainty(alignment: Alignment) -> str:
    """The error of a clock, for people."""
    if alignment.error is None:
        return "unknown"
    return f"±{alignment.error:.0f} µs" if alignment.error else "0"


def _moved(rank: Placed) -> Iterator[Event]:
    for event in rank.trace.events:
        yield event | {"ts": rank.at(event["ts"])} if "ts" in event else event


def _counters(rank: Placed) -> Iterator[Event]:
    ends = [o for o in rank.trace.operations if o.ended is not None]
    steps = [(o.opened, 1, 0) for o in rank.trace.operations]
    steps += [(o.ended, -1, o.bytes) for o in ends if o.ended is not None]
    in_flight = total = 0
    for time, more, size in sorted(steps):
        in_flight, total = in_flight + more, total + size
        yield _counter(rank, time, "operations in flight", in_flight)
        if size:
            yield _counter(rank, time, "bytes communicated", total)


def _counter(rank: Placed, time: float, name: str, value: int) -> Event:
    return {
        "ph": "C", "pid": rank.trace.rank, "tid": 0, "ts": rank.at(time), "name": name,
        "args": {"value": value},
    }  # fmt: skip


def _arrows(ranks: Sequence[Placed]) -> Iterator[Event]:
    numbers = itertools.count(1)
    for name, found in _by_key(ranks):
        asked = [(rank.at(o.asked), rank, o) for rank, o in found if o.asked is not None]
        if len(asked) < 2:
            continue
        last_time, last, operation = max(asked, key=lambda one: one[0])
        for time, rank, other in asked:
            if rank is last or other.began is None or last_time - time < WORTH_AN_ARROW:
                continue
            number = next(numbers)
            yield _end_of_arrow("s", number, name, last, operation.lane, last_time)
            yield _end_of_arrow("f", number, name, rank, other.lane, rank.at(other.began))


def _by_key(ranks: Sequence[Placed]) -> Iterator[tuple[str, list[RankOperation]]]:
    found: dict[Key, list[RankOperation]] = {}
    for rank in ranks:
        for operation in rank.trace.operations:
            if operation.key is not None:
                found.setdefault(operation.key, []).append((rank, operation))
    for (_, _, name), parts in found.items():
        yield name, parts


def _end_of_arrow(kind: str, number: int, name: str, rank: Placed, lane: int, time: float) -> Event:
    return {
        "ph": kind, "id": number, "cat": "waited for", "name": name, "bp": "e",
        "pid": rank.trace.rank, "tid": lane, "ts": time,
    }  # fmt: skip


# How far the clocks of two ranks are apart, from what they did together.
#
# Ranks of one boot of a kernel share a clock. For others, each operation that exchanges data
# between all ranks gives two bounds, because no rank can end it before the other has begun it:
#
#     here    |began------ended|
#     there        |began------ended|      there = here + offset
#
#     began there - ended here  <=  offset  <=  ended there - began here
#
# Over many operations the bounds come within twice the time of the fastest one. Clocks drift, so
# each stretch of some seconds has bounds of its own.

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
        return Alignment(((0.0, there.epoch - here.epoch),), None, "the wall clocks")
    points = tuple((at, -(low + high) / 2) for at, low, high, _ in stretches)
    error = max((high - low) / 2 for _, low, high, _ in stretches)
    count = sum(number for *_, number in stretches)
    return Alignment(points, error, f"{count} operations")


def _shared(
    here: Iterable[TimelineOperation], there: Iterable[TimelineOperation]
) -> list[tuple[Span, Span]]:
    mine, theirs = _together(here), _together(there)
    pairs = [(mine[key], operation) for key, operation in theirs.items() if key in mine]
    return sorted(pairs, key=lambda pair: pair[1].began)


def _together(operations: Iterable[TimelineOperation]) -> dict[Key, Span]:
    return {
        o.key: Span(o.began, o.ended)
        for o in operations
        if o.key and o.kind in _TOGETHER and o.began is not None and o.ended is not None
    }


def _stretches(pairs: Sequence[tuple[Span, Span]]) -> Iterable[tuple[float, float, float, int]]:
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
