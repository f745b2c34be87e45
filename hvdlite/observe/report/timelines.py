"""The timelines of ranks as facts of a job. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hvdlite.observe.report.details import Details, Tally, union
from hvdlite.observe.report.facts import Facts, Point, Sample, Totals
from hvdlite.observe.report.history import Samples
from hvdlite.observe.timeline.merging import Placed, merge
from hvdlite.observe.timeline.reading import Key, TimelineOperation, Trace

_MICRO = 1e-6


def facts(traces: Sequence[Trace]) -> Facts:
    """Raises ValueError if two are of one rank, or if nothing has been completed in them."""
    ranks = merge(traces).ranks
    done = {placed.trace.rank: _completed(placed.trace.operations) for placed in ranks}
    if not any(done.values()):
        raise ValueError("no operation has ended in the timeline")
    epoch = ranks[0].trace.clock.epoch * _MICRO
    ends = [each.ended or 0.0 for each in done[ranks[0].trace.rank]]
    steps = {placed.trace.rank: _steps(done[placed.trace.rank]) for placed in ranks}
    samples = _samples(ranks, steps, done, epoch)
    active = (max(ends) - min(ends)) * _MICRO if ends else 0.0
    totals = {rank: _totals(found) for rank, found in done.items()}
    return Facts(
        began=epoch,
        ended=epoch + max(ends, default=0.0) * _MICRO,
        hosts={placed.trace.rank: "" for placed in ranks},
        samples=samples,
        active=active,
        steps=max((len(each) - 1 for each in steps.values()), default=0),
        totals=totals,
        waited_for=_waited_for(ranks),
        details=details(ranks[0].trace),
        notes=[_clocks(ranks[1:])] if len(ranks) > 1 else (),
    )


def details(trace: Trace) -> Details:
    """Of all operations of that rank, one after another, as its recorder would have had them."""
    tally = Tally()
    tally.take([
        {
            "number": number, "process_set": each.key[0] if each.key else 0, "name": each.name,
            "failed": False, "bytes": each.bytes, "dtype": each.dtype,
            "communicator": each.transport,
            "submitted": _asked(each) * _MICRO,
            "agreed": (each.began or 0.0) * _MICRO, "done": (each.ended or 0.0) * _MICRO,
        }
        for number, each in enumerate(_completed(trace.operations))
    ])  # fmt: skip
    found = tally.details()
    found.rank = trace.rank
    return found


def _asked(operation: TimelineOperation) -> float:
    """A rank that has joined takes part without a request of its own."""
    asked = operation.began if operation.asked is None else operation.asked
    return asked or 0.0


def _completed(operations: Iterable[TimelineOperation]) -> list[TimelineOperation]:
    return [each for each in operations if each.began is not None and each.ended is not None]


def _steps(operations: Sequence[TimelineOperation]) -> list[float]:
    """When the operation ends that returns most often: the one with the most bytes of these."""
    times: dict[str, list[float]] = {}
    sizes: dict[str, int] = {}
    for each in operations:
        times.setdefault(each.name, []).append(each.ended or 0.0)
        sizes[each.name] = each.bytes
    if not times:
        return []
    name = max(times, key=lambda each: (sizes[each] * len(times[each]), len(times[each])))
    return times[name] if len(times[name]) > 1 else []


def _samples(
    ranks: Sequence[Placed],
    steps: Mapping[int, Sequence[float]],
    done: Mapping[int, Sequence[TimelineOperation]],
    epoch: float,
) -> Sequence[Sample]:
    found = Samples()
    waits = {rank: _Waits(each) for rank, each in done.items()}
    for number in range(1, max((len(each) for each in steps.values()), default=0)):
        points, end, begin = {}, 0.0, 0.0
        for placed in ranks:
            rank = placed.trace.rank
            times = steps[rank]
            if number >= len(times):
                continue
            seconds = (times[number] - times[number - 1]) * _MICRO
            waited = waits[rank].between(times[number - 1], times[number]) * _MICRO
            points[rank] = Point(seconds, min(1.0, waited / seconds) if seconds > 0 else None)
            if not end:
                end, begin = placed.at(times[number]), placed.at(times[number - 1])
        if points:
            found.add(Sample(epoch + end * _MICRO, (end - begin) * _MICRO, points))
    return found.list


class _Waits:
    """When a rank waited for others; asked about one step after another."""

    def __init__(self, operations: Iterable[TimelineOperation]) -> None:
        self._spans = list(
            union((o.asked, o.began) for o in operations if o.asked is not None and o.began)
        )
        self._at = 0

    def between(self, begin: float, end: float) -> float:
        while self._at < len(self._spans) and self._spans[self._at][1] <= begin:
            self._at += 1
        waited = 0.0
        for low, high in self._spans[self._at :]:
            if low >= end:
                break
            waited += max(0.0, min(high, end) - max(low, begin))
        return waited


def _totals(operations: Sequence[TimelineOperation]) -> Totals:
    batches: dict[tuple[Any, ...], int] = {}
    for each in operations:
        batch = each.key[0] if each.key else 0, each.began, each.ended
        batches[batch] = batches.get(batch, 0) + 1
    asked = [o for o in operations if o.asked is not None]
    return Totals(
        operations=len(operations),
        bytes=sum(each.bytes for each in operations),
        batches=len(batches),
        fused=sum(count > 1 for count in batches.values()),
        negotiating=_covered((o.asked or 0.0, o.began or 0.0) for o in asked),
        moving=_covered((o.began or 0.0, o.ended or 0.0) for o in operations),
    )


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in union(spans)) * _MICRO


def _waited_for(ranks: Sequence[Placed]) -> dict[int, float]:
    """From the request of the last but one to that of the last rank, of the operations for which
    that was the last one."""
    asked: dict[Key, list[tuple[float, int]]] = {}
    for placed in ranks:
        for each in placed.trace.operations:
            if each.key is not None and each.asked is not None:
                asked.setdefault(each.key, []).append((placed.at(each.asked), placed.trace.rank))
    spans: dict[int, list[tuple[float, float]]] = {placed.trace.rank: [] for placed in ranks}
    for found in asked.values():
        if len(found) == len(ranks) > 1:
            (before, _), (last, rank) = sorted(found)[-2:]
            spans[rank].append((before, last))
    return {rank: _covered(each) for rank, each in spans.items()} if len(ranks) > 1 else {}


def _clocks(others: Sequence[Placed]) -> str:
    errors = [placed.alignment.error for placed in others]
    known = [error for error in errors if error is not None]
    if len(known) < len(errors):
        return "The clocks of the ranks' hosts are not compared: no operation shows them together."
    if not max(known):
        return "The ranks share one clock."
    return f"The error of the ranks' clocks is at most {max(known):.0f} µs."
