"""One trace from the timelines of all ranks. Pure.

The trace has the clock of the first rank given. An arrow leads from the request of the rank that
asked last, for which the others waited, to the beginning of the operation on each other rank.
Counters show how many operations each rank has in flight, and the bytes that it has communicated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hvdlite.observe.timeline import clocks
from hvdlite.observe.timeline.clocks import Alignment
from hvdlite.observe.timeline.reading import Event, Key, Operation, Trace

# Waiting for less than this is not worth an arrow.
WORTH_AN_ARROW = 10.0  # microseconds


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
        return {"traceEvents": self.events, "otherData": {"clocks": _said(self.ranks)}}


def merge(traces: Sequence[Trace]) -> Merged:
    """Raises ValueError if two are of the same rank."""
    ranks = [trace.rank for trace in traces]
    if twice := {rank for rank in ranks if ranks.count(rank) > 1}:
        raise ValueError(f"two of the files are timelines of rank {min(twice)}")
    reference, *others = sorted(traces, key=lambda trace: trace.rank)
    alone = Alignment(((0.0, 0.0),), 0.0, "the reference")
    placed = [Placed(reference, alone)]
    placed += [Placed(other, clocks.align(reference, other)) for other in others]
    arrows = list(_arrows(placed))
    events = [event for rank in placed for event in itertools.chain(_moved(rank), _counters(rank))]
    return Merged(events + arrows, placed, len(arrows) // 2)


def uncertainty(alignment: Alignment) -> str:
    """The error of a clock, for people."""
    if alignment.error is None:
        return "unknown"
    return f"±{alignment.error:.0f} µs" if alignment.error else "0"


def _said(ranks: Iterable[Placed]) -> dict[str, str]:
    return {
        f"rank {r.trace.rank}": f"{uncertainty(r.alignment)} ({r.alignment.how})" for r in ranks
    }


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


def _by_key(ranks: Sequence[Placed]) -> Iterator[tuple[str, list[tuple[Placed, Operation]]]]:
    found: Mapping[Key, list[tuple[Placed, Operation]]]
    found = {}
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
