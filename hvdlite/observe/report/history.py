"""Keeps what the page needs of a job that may last for weeks, in bounded memory. Pure.

It takes the records that are the lines of `--metrics-file`. When it has too many samples, it makes
one of each two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

from hvdlite.base.processors import Taken
from hvdlite.observe.report import details
from hvdlite.observe.report.details import Details
from hvdlite.observe.report.facts import Event, Facts, JobEnd, Point, Sample, Totals

MOST_SAMPLES = 600
MOST_POINTS = 60_000  # of all ranks in all samples
_MOST_EVENTS = 200
_LONGEST_PAUSE = 30.0  # seconds

_PLAIN = {
    "operations": "operations",
    "failures": "failures",
    "bytes": "bytes",
    "batches": "batches",
    "fused": "batches_fused",
    "in_full": "requests_in_full",
    "by_number": "requests_by_slot",
    "negotiating": "seconds_negotiating",
    "moving": "seconds_moving",
}


class History:
    def __init__(self) -> None:
        self._samples = Samples()
        self._growth: dict[int, _Growth] = {}
        self._waited_for = _Growth()
        self._before: Details | None = None  # of jobs that ended when ranks changed
        self._details: Details | None = None
        self._hosts: dict[int, str] = {}
        self._events: list[Event] = []
        self._lost_events = 0
        self._began: float | None = None
        self._last: float | None = None
        self._changes = 0
        self._active = self._steps = 0.0
        self._worked_at: float | None = None
        self._waited: dict[int, _Rate] = {}
        self._silent: set[int] = set()
        self._taken: dict[str, tuple[float, Taken]] = {}  # seconds, and the mean of them

    def add(self, record: Mapping[str, Any]) -> None:
        """Takes a line of `--metrics-file`."""
        now = float(record["time"])
        if self._began is None:
            self._began = float(record.get("began", now))
        elapsed = max(0.0, now - (self._began if self._last is None else self._last))
        ranks = record["ranks"]
        self._note_changes(now, record)
        grew = [self._count(rank) for rank in ranks]
        if any(grew):
            self._worked(now, elapsed, ranks)
        for each in record.get("taken", ()):
            self._was_taken(Taken(**each), elapsed)
        if record.get("details"):
            self._learn(details.decode(record["details"]))
        points = {each["rank"]: _point(each, self._waiting(each, now)) for each in ranks}
        self._samples.add(Sample(now, elapsed, points))
        self._last = now

    def _was_taken(self, now: Taken, elapsed: float) -> None:
        seconds, before = self._taken.get(now.host, (0.0, now))
        together = seconds + elapsed
        part = elapsed / together if together else 1.0
        each = before.each + part * (now.each - before.each)
        others = before.others + part * (now.others - before.others)
        self._taken[now.host] = together, replace(now, each=each, others=others)

    def _waiting(self, rank: Mapping[str, Any], now: float) -> float | None:
        """The share of the time in which operations of this rank waited, since its report before
        this one. A record's own share is some reports old."""
        counters = rank.get("counters") or {}
        seconds = counters.get("seconds_negotiating")
        if seconds is None:
            return rank.get("waiting")
        waited = self._waited.setdefault(rank["rank"], _Rate())
        return waited.take(float(seconds), counters.get("operations", 0), now)

    def _worked(self, now: float, elapsed: float, ranks: Sequence[Mapping[str, Any]]) -> None:
        """Operations have ended since the last record, or since an earlier one: ranks report less
        often than records may come. A longer pause, such as an evaluation, does not count."""
        pause = elapsed if self._worked_at is None else now - self._worked_at
        worked = pause if pause <= _LONGEST_PAUSE else elapsed
        self._worked_at = now
        self._active += worked
        rates = [rank["steps_per_second"] for rank in ranks if rank.get("steps_per_second")]
        self._steps += min(rates, default=0.0) * worked

    def happened(self, time: float, text: str) -> None:
        """The first events of a job say more than the last ones, so the others are only counted."""
        if len(self._events) < _MOST_EVENTS:
            self._events.append(Event(time, text))
        else:
            self._lost_events += 1

    def facts(
        self,
        title: str = "",
        end: JobEnd | None = None,
        running: bool = False,
        ended: float | None = None,
        notes: Sequence[str] = (),
    ) -> Facts:
        events = list(self._events)
        if self._lost_events:
            events.append(Event(self._last or 0.0, f"{self._lost_events} more events"))
        return Facts(
            title,
            self._began,
            ended if ended is not None else self._last,
            end,
            running,
            dict(self._hosts),
            list(self._samples.list),
            self._active,
            self._steps,
            {rank: growth.totals() for rank, growth in sorted(self._growth.items())},
            {int(rank): seconds for rank, seconds in self._waited_for.nested("ranks").items()},
            self._together(),
            sorted(self._taken.values(), key=lambda each: -each[0]),
            self._changes,
            events,
            notes,
        )

    def _together(self) -> Details | None:
        if self._before is None or self._details is None:
            return self._details or self._before
        return details.total(self._before, self._details)

    def _learn(self, seen: Details) -> None:
        if self._details is not None and seen.operations < self._details.operations:
            self._before = self._together()  # the rank has begun anew
        self._details = seen

    def _count(self, rank: Mapping[str, Any]) -> bool:
        """Whether operations of this rank have ended since the last record."""
        counters = rank.get("counters") or {}
        if not counters:
            return False
        growth = self._growth.setdefault(rank["rank"], _Growth())
        if rank["rank"] == 0:
            self._waited_for.take({"ranks": counters.get("seconds_waited_for_rank", {})})
        before = growth.plain("operations")
        growth.take(counters)
        return growth.plain("operations") > before

    def _note_changes(self, now: float, record: Mapping[str, Any]) -> None:
        hosts = {rank["rank"]: rank["host"] for rank in record["ranks"]}
        heading = record.get("heading", "")
        # While an elastic job ends or forms a generation, it has no ranks.
        if hosts and self._hosts and hosts != self._hosts:
            text = f"The ranks have changed: {len(self._hosts)} → {len(hosts)}"
            self.happened(now, f"{text} ({heading})" if heading else text)
        self._hosts = hosts or self._hosts
        self._changes = max(self._changes, int(record.get("world_changes", 0)))
        silent = {
            rank["rank"] for rank in record["ranks"] if rank.get("note", "").startswith("silent")
        }
        for rank in sorted(silent - self._silent):
            self.happened(now, f"Rank {rank} on {hosts[rank]} no longer reports")
        self._silent = silent


class Samples:
    """The samples of a job, never too many."""

    def __init__(self) -> None:
        self.list: list[Sample] = []

    def add(self, sample: Sample) -> None:
        self.list.append(sample)
        points = len(sample.points) * len(self.list)
        if len(self.list) > MOST_SAMPLES or points > MOST_POINTS:
            old = self.list
            pairs = zip(old[0::2], old[1::2], strict=False)
            self.list = [_merged(*pair) for pair in pairs] + old[len(old) // 2 * 2 :]


class _Rate:
    """How fast a rank's counter of seconds grows, from one report of the rank to the next."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._seconds = self._operations = 0.0
        self._rate: float | None = None

    def take(self, seconds: float, operations: float, now: float) -> float | None:
        if self._at is None or seconds < self._seconds:
            self._at, self._seconds, self._operations, self._rate = now, seconds, operations, None
        elif operations > self._operations and now > self._at:
            self._rate = min(1.0, (seconds - self._seconds) / (now - self._at))
            self._at, self._seconds, self._operations = now, seconds, operations
        elif now - self._at > _LONGEST_PAUSE:
            self._rate = None
        return self._rate


class _Growth:
    """How much counters have grown in all, also if they begin again at 0."""

    def __init__(self) -> None:
        self._last: Mapping[str, Any] = {}
        self._sums: dict[str, Any] = {}

    def take(self, counters: Mapping[str, Any]) -> None:
        _grow(self._sums, self._last, counters)
        self._last = counters

    def plain(self, name: str) -> float:
        return float(self._sums.get(name, 0))

    def nested(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._sums.get(name, {})
        return found

    def totals(self) -> Totals:
        carried = {name: sum(each.values()) for name, each in self.nested("carried_by").items()}
        sent = {name: each.get("sent", 0) for name, each in self.nested("interfaces").items()}
        plain = {field: self.plain(name) for field, name in _PLAIN.items()}
        return Totals(**plain, carried=carried, interfaces=sent)


def _grow(sums: dict[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    for name, value in after.items():
        last = before.get(name)
        if isinstance(value, Mapping):
            _grow(sums.setdefault(name, {}), last or {}, value)
        elif isinstance(value, (int, float)):
            since = last if isinstance(last, (int, float)) and last <= value else 0
            sums[name] = sums.get(name, 0) + value - since


def _point(rank: Mapping[str, Any], waiting: float | None) -> Point:
    steps = rank.get("steps_per_second")
    return Point(
        1 / steps if steps else None,
        waiting,
        rank.get("bytes_per_second"),
        rank.get("cores"),
        rank.get("memory_bytes"),
    )


def _merged(first: Sample, second: Sample) -> Sample:
    both = first.points, second.points
    points = {
        rank: mean([each[rank] for each in both if rank in each])
        for rank in sorted({*first.points, *second.points})
    }
    return Sample(second.time, first.seconds + second.seconds, points)


def mean(points: Iterable[Point]) -> Point:
    return Point(*map(average, zip(*map(astuple, points), strict=True)))


def average(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None: none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
