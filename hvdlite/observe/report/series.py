"""Which ranks and which times a chart shows of a job with any number of either. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median

from hvdlite.observe.report.charts import Line
from hvdlite.observe.report.facts import Event, Facts, Point, Sample
from hvdlite.observe.report.history import average, mean

LINE_POINTS = 240
COLUMNS = 120
ROWS = 64
_ALL_LINES = 6
_CHOSEN_LINES = 3
_LATE = 0.05  # of the time
_SLOW = 1.05  # times the step of the rank in the middle
_INSTANT = 1e-9
_OTHERS = "the fastest and the slowest rank of each moment"

Value = Callable[[Point], float | None]


def span(facts: Facts) -> tuple[float, float]:
    """When the charts begin, and how many seconds they show."""
    times = [sample.time - sample.seconds for sample in facts.samples[:1]]
    begin = min([*times, *([facts.began] if facts.began is not None else [])], default=0.0)
    end = facts.samples[-1].time if facts.samples else begin
    return begin, max(end - begin, 1e-9)


def by_rank(facts: Facts, value: Value, columns: int) -> dict[int, list[float | None]]:
    """The means of equal times; None where nothing is known."""
    begin, seconds = span(facts)
    count = min(columns, max(1, len(facts.samples)))
    sums: dict[int, list[list[float]]] = {}  # of each column: weight, and weighted values
    for sample in facts.samples:
        shares = list(_shares(sample, begin, seconds / count, count))
        for rank, point in sample.points.items():
            known = value(point)
            if rank not in sums:
                sums[rank] = [[0.0, 0.0] for _ in range(count)]
            if known is None:
                continue
            for column, weight in shares:
                cell = sums[rank][column]
                cell[0] += weight
                cell[1] += weight * known
    return {
        rank: [total / weight if weight else None for weight, total in cells]
        for rank, cells in sorted(sums.items())
    }


def means(facts: Facts, ranks: Iterable[int]) -> dict[int, Point]:
    """Of each of these ranks, over the whole job."""
    return {
        rank: mean([each.points[rank] for each in facts.samples if rank in each.points])
        for rank in ranks
    }


def _shares(sample: Sample, begin: float, width: float, count: int) -> Iterator[tuple[int, float]]:
    """The columns that a sample reaches into, and for how long."""
    low = max(0.0, sample.time - sample.seconds - begin) / width
    high = min(float(count), max(low, (sample.time - begin) / width))
    for column in range(min(int(low), count - 1), min(int(high), count - 1) + 1):
        # A sample of no time counts where nothing else is known.
        yield column, max(_INSTANT, min(high, column + 1) - max(low, column))


def step_lines(facts: Facts) -> list[Line]:
    """A line for each rank, or the fastest, the slowest, and those that stand out."""
    _, seconds = span(facts)
    found = by_rank(facts, lambda point: point.step, LINE_POINTS)
    found = {rank: values for rank, values in found.items() if average(values) is not None}
    if len(found) <= _ALL_LINES:
        return [
            Line(named(rank, facts), _timed(values, seconds), number)
            for number, (rank, values) in enumerate(found.items(), 1)
        ]
    columns = [[v for v in values if v is not None] for values in zip(*found.values(), strict=True)]
    edges = [[edge(known, default=None) for known in columns] for edge in (min, max)]
    return [Line(_OTHERS, _timed(values, seconds)) for values in edges] + [
        Line(named(rank, facts), _timed(found[rank], seconds), number)
        for number, rank in enumerate(_that_stand_out(facts, found), 1)
    ]


def waiting_rows(facts: Facts) -> list[tuple[int, list[float | None]]]:
    """Of many ranks, those that wait least and those that wait most: others wait for the first."""
    found = by_rank(facts, lambda point: point.waiting, COLUMNS)
    if len(found) > ROWS:
        order = sorted(found, key=lambda rank: average(found[rank]) or 0.0)
        found = {rank: found[rank] for rank in sorted(order[: ROWS // 2] + order[-ROWS // 2 :])}
    return list(found.items())


def marks(facts: Facts) -> list[Event]:
    """Changes of the ranks, and failures, by the time of the charts."""
    begin, seconds = span(facts)
    return [Event(min(max(0.0, event.time - begin), seconds), event.text) for event in facts.events]


def _that_stand_out(facts: Facts, found: Mapping[int, Sequence[float | None]]) -> list[int]:
    """Those that the others wait for, and those with long steps."""
    late = [rank for rank in found if facts.waited_for.get(rank, 0.0) >= _LATE * facts.active > 0]
    means = {rank: average(values) or 0.0 for rank, values in found.items()}
    slow = [rank for rank in found if means[rank] > _SLOW * median(means.values())]
    late.sort(key=lambda rank: -facts.waited_for[rank])
    slow.sort(key=lambda rank: -means[rank])
    return list(dict.fromkeys([*late, *slow]))[:_CHOSEN_LINES]


def named(rank: int, facts: Facts) -> str:
    """With its host, if there are several and it is known."""
    host = facts.hosts.get(rank)
    return f"rank {rank} on {host}" if facts.several_hosts and host else f"rank {rank}"


def _timed(values: Sequence[float | None], seconds: float) -> list[tuple[float, float | None]]:
    width = seconds / len(values)
    return [((i + 0.5) * width, value) for i, value in enumerate(values)]
