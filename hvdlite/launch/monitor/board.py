"""Turns the reports of a job's ranks into what a person wants to see. Pure: times are arguments.

A *step* is the time between one use of a tensor's name and the next. *Waiting* is the share of the
time in which a rank had submitted a collective that others had not. *Late* is how long an operation
waited, on average, for this rank as the last. A rank is marked as a straggler if this is a good
part of a step and stands out among the ranks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hvdlite.base import processors, untrusted
from hvdlite.base.processors import Taken, Usage
from hvdlite.base.untrusted import printable
from hvdlite.launch.monitor import report_key

# Rates cover the last seconds: short enough to see a change, long enough for steps of a few
# seconds.
WINDOW_SECONDS = 10.0
# A rank whose last report is this old is shown as silent, and not with old numbers.
SILENT_SECONDS = 5.0
_LATE_SHARE_OF_TIME = 0.05
_LATE_BEYOND_AVERAGE = 1.5


@dataclass
class Row:
    """What is known about a rank; None: nothing."""

    rank: int
    host: str
    steps: float | None = None  # per second
    operations: float | None = None  # per second
    bytes: float | None = None  # per second
    waiting: float | None = None  # 0 to 1
    late: float | None = None  # seconds of a step, or of an operation if steps are not known
    cores: float | None = None  # processor time per time
    memory: float | None = None  # bytes
    last: str = ""  # collective
    note: str = ""
    straggler: bool = False
    silent: bool = False


# Counters that are tables, and how deep; the others are numbers.
_TABLES = {"seconds_waited_for_rank": 1, "carried_by": 2, "interfaces": 2}


def decoded(raw: bytes) -> dict[str, Any] | None:
    """Returns a rank's report, or None if it is none: whatever knows the job's secret can set it.
    Pure."""
    try:
        report = untrusted.parsed(raw)
    except ValueError:
        return None
    if not isinstance(report, dict):
        return None
    if "clock" not in report:
        return report if report.get("left") else None
    counters, seen = report.get("counters"), report.get("seen")
    good = (
        untrusted.is_number(report["clock"])
        and isinstance(counters, dict)
        and all(
            untrusted.are_numbers(each, _TABLES.get(name, 0)) for name, each in counters.items()
        )
        and isinstance(seen, dict)
        and all(
            seen.get(name) is None or untrusted.is_number(seen[name])
            for name in ("per_step", "waiting")
        )
        and untrusted.are_numbers(report.get("process", {}))
        and processors.is_report(report.get("processors", {}))
        and isinstance(report.get("details", {}), dict)
    )
    return report if good else None


@dataclass
class _Rank:
    raw: bytes = b""
    heard: float = 0.0
    left: bool = False
    broken: bool = False  # the last report is none
    # the reports within the window, and one before it
    reports: deque[dict[str, Any]] = field(default_factory=deque)

    def take(self, raw: bytes, now: float) -> None:
        if raw == self.raw:
            return
        self.raw, self.heard = raw, now
        report = decoded(raw)
        self.broken = report is None
        if report is None:
            return
        self.left = bool(report.get("left"))
        if "clock" not in report:
            return
        if self.reports and report["clock"] < self.reports[-1]["clock"]:
            self.reports.clear()  # a report of another process
        self.reports.append(report)
        while (
            len(self.reports) > 2 and self.reports[1]["clock"] <= report["clock"] - WINDOW_SECONDS
        ):
            self.reports.popleft()

    def growth(self, name: str, of: str = "counters") -> float:
        """Returns the growth of a counter within the window."""
        first, last = self.reports[0].get(of, {}), self.reports[-1].get(of, {})
        return float(last.get(name, 0) - first.get(name, 0))

    @property
    def span(self) -> float:
        return float(self.reports[-1]["clock"] - self.reports[0]["clock"]) if self.reports else 0.0

    def processor_seconds(self) -> float:
        """Returns the processor time within the window."""
        return self.growth("cpu_seconds", "process")

    def last(self, of: str) -> Mapping[str, Any]:
        """Returns a table of the last report; empty if there is none."""
        found: Mapping[str, Any] = self.reports[-1].get(of, {}) if self.reports else {}
        return found

    def usage(self, host: str) -> Usage | None:
        """Of the cores that this rank may use, within the window."""
        if len(self.reports) < 2:
            return None
        first, last = (each.get("processors") for each in (self.reports[0], self.reports[-1]))
        found = processors.between(host, first, last, self.span)
        return found and replace(found, own=found.own + self.processor_seconds() / self.span)

    def pending(self) -> int:
        """Returns how many operations this rank has submitted that have not ended."""
        return self.announced() - self._sum("operations", "failures")

    def announced(self) -> int:
        return self._sum("requests_in_full", "requests_by_slot")

    def _sum(self, *counters: str) -> int:
        return sum(int(self.last("counters").get(name, 0)) for name in counters)


class Board:
    """The last reports of all ranks. `absent`: the note of a rank without one."""

    def __init__(self, hosts: Mapping[int, str], absent: str = "not yet in init()") -> None:
        self._hosts = hosts
        self._absent = absent
        self._ranks = {rank: _Rank() for rank in hosts}
        self.heading = ""  # of an elastic job
        self.changes = 0  # how often its ranks have changed

    def become(self, hosts: Mapping[int, str], heading: str) -> None:
        """The ranks of an elastic job now, and a line about it. Reports of others are forgotten."""
        self.heading = heading
        if hosts != self._hosts:
            self.changes += 1 if self._hosts else 0
            self._hosts = hosts
            self._ranks = {rank: _Rank() for rank in hosts}

    @property
    def heard_all(self) -> bool:
        """Whether each rank has reported twice, so that all rates are known, or has left."""
        return all(len(rank.reports) > 1 or rank.left for rank in self._ranks.values())

    @property
    def ranks(self) -> Iterable[int]:
        return self._ranks

    def take(self, rank: int, raw: bytes, now: float) -> None:
        """Takes the present value in the store for that rank."""
        self._ranks[rank].take(raw, now)

    def read(self, peek: Callable[[str], bytes | None], now: float) -> None:
        """Takes the present reports of all ranks. `peek` returns the value of a key in the
        store."""
        for rank in self.ranks:
            raw = peek(report_key(rank))
            if raw is not None:
                self.take(rank, raw, now)

    def process(self, rank: int) -> Mapping[str, float]:
        """The processor time and the memory of that rank; empty if it has not reported."""
        return self._ranks[rank].last("process")

    def counters(self, rank: int) -> Mapping[str, Any]:
        """What hvd.metrics() has returned on that rank; empty if it has not reported."""
        return self._ranks[rank].last("counters")

    @property
    def details(self) -> Mapping[str, Any]:
        """What rank 0 has reported about tensors, versions and knobs; empty: nothing."""
        return self._ranks[0].last("details") if 0 in self._ranks else {}

    def taken(self, now: float) -> list[Taken]:
        """The machines whose cores programs outside of the job use."""
        here = [
            rank.usage(self._hosts[number].partition(", member ")[0])
            for number, rank in self._ranks.items()
            if not rank.left and now - rank.heard <= SILENT_SECONDS
        ]
        return processors.taken(each for each in here if each is not None)

    def rows(self, now: float) -> list[Row]:
        """Returns one row per rank, in order."""
        rows = [self._row(number, rank, now) for number, rank in self._ranks.items()]
        self._add_lateness(rows)
        self._mark_stalled(rows)
        return rows

    def _row(self, number: int, rank: _Rank, now: float) -> Row:
        row = Row(number, self._hosts[number])
        if rank.broken:
            row.silent = True
            row.note = "silent: its last report cannot be read"
        elif rank.left:
            row.note = "has left"
        elif not rank.reports:
            # A rank of a generation is in init(), or was.
            row.note = "" if rank.raw or self.heading else self._absent
        elif now - rank.heard > SILENT_SECONDS:
            row.silent = True
            row.note = f"silent for {now - rank.heard:.0f} s"
        else:
            seen = rank.reports[-1]["seen"]
            row.last = printable(str(seen.get("last", "")))
            row.memory = rank.reports[-1].get("process", {}).get("memory")
            if rank.span > 0:
                row.operations = rank.growth("operations") / rank.span
                row.bytes = rank.growth("bytes") / rank.span
                row.cores = rank.processor_seconds() / rank.span
                if seen.get("per_step"):
                    row.steps = row.operations / seen["per_step"]
                if row.operations:
                    row.waiting = seen.get("waiting")
        return row

    def _add_lateness(self, rows: Sequence[Row]) -> None:
        """Adds how much of a step operations waited for each rank; rank 0 knows it."""
        root = self._ranks.get(0)
        if root is None or len(root.reports) < 2 or not root.growth("operations") or len(rows) < 2:
            return
        before, after = (
            each["counters"].get("seconds_waited_for_rank", {})
            for each in (root.reports[0], root.reports[-1])
        )
        waited = [after.get(str(row.rank), 0.0) - before.get(str(row.rank), 0.0) for row in rows]
        average = sum(waited) / len(waited)
        most = max(_LATE_SHARE_OF_TIME * root.span, _LATE_BEYOND_AVERAGE * average)
        steps = root.span * (rows[0].steps or rows[0].operations or float("inf"))
        for row, seconds in zip(rows, waited, strict=True):
            row.late = seconds / steps
            if seconds > most:
                row.straggler = True
                row.note = row.note or f"others wait {milliseconds(row.late)} for it"

    def _mark_stalled(self, rows: Sequence[Row]) -> None:
        """If nothing moves, marks the ranks that have submitted less than others: all others wait
        for them."""
        heard = [row for row in rows if row.operations is not None]
        if not heard or any(row.operations for row in heard):
            return
        most = max(self._ranks[row.rank].announced() for row in heard)
        for row in heard:
            rank = self._ranks[row.rank]
            if rank.pending() > 0:
                row.note = "waits for others"
            elif rank.announced() < most:
                row.straggler = True
                row.note = "all others wait for it"

    def summary(self, now: float) -> str:
        """Returns everything in one line."""
        rows = self.rows(now)
        told = [row for row in rows if row.operations is not None]
        parts = ["1 rank" if len(rows) == 1 else f"{len(rows)} ranks"]
        if told:
            if all(row.steps is not None for row in told):
                parts.append(f"{rate(min(row.steps or 0 for row in told))} steps/s")
            parts.append(f"{rate(min(row.operations or 0 for row in told))} operations/s")
            parts.append(f"{size(max(row.bytes or 0 for row in told))}/s")
            waiting = [row.waiting for row in told if row.waiting is not None]
            if waiting:
                parts.append(f"waiting {min(waiting):.0%} to {max(waiting):.0%} of the time")
            if told[0].last:
                parts.append(f"last {told[0].last}")
        others = [f"rank {row.rank} on {row.host}: {row.note}" for row in rows if row.note]
        shown = others[:8] + ([f"and {len(others) - 8} more ranks"] if len(others) > 8 else [])
        heading = [self.heading] if self.heading else []
        taken = [each.sentence.removesuffix(".") for each in self.taken(now)[:1]]
        return "; ".join([*heading, ", ".join(parts), *shown, *taken])


def rate(value: float | None) -> str:
    """Returns three digits."""
    if value is None:
        return "-"
    return f"{value:.{0 if value >= 100 or value == 0 else 1 if value >= 10 else 2}f}"


def size(value: float | None) -> str:
    """Returns a size such as 1.5 MB."""
    if value is None:
        return "-"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{1000 * seconds:.0f} ms"
