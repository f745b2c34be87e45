"""What `hvdlite report` does: reads files, makes the page."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hvdlite.base import private_file, untrusted
from hvdlite.observe.report import timelines, words
from hvdlite.observe.report.facts import Facts
from hvdlite.observe.report.findings import findings
from hvdlite.observe.report.history import History
from hvdlite.observe.report.page import page
from hvdlite.observe.timeline.reading import Trace
from hvdlite.observe.timeline.reading import read as read_timeline

# Each number of the files may be one of a job, and all together of none.
_CONTRADICT = "there is no page of these files, because their numbers contradict one another"


def run(arguments: argparse.Namespace) -> int:
    """Runs the command, and returns the exit status."""
    output: Path = arguments.output or arguments.files[0].with_suffix(".html")
    try:
        facts = _facts_of(arguments.files)
    except OSError as error:
        return _fail(f"cannot read {error.filename}: {error.strerror}")
    except ValueError as error:
        return _fail(str(error))
    except ArithmeticError as error:
        return _fail(f"{_CONTRADICT}: {type(error).__name__}: {error}")
    write = private_file.write_as_asked if arguments.output else private_file.write
    try:
        made, found = page(facts, time.time()), findings(facts)
    except (ArithmeticError, LookupError, ValueError) as error:
        return _fail(f"{_CONTRADICT}: {type(error).__name__}: {error}")
    try:
        write(str(output), made.encode())
    except OSError as error:
        return _fail(f"cannot write {output}: {error.strerror}")
    for finding in found:
        print(words.plain(f"{finding.text} {finding.advice}"))
    ranks = "1 rank" if len(facts.hosts) == 1 else f"{len(facts.hosts)} ranks"
    print(f"{output}: {ranks}. Open it in a browser.")
    return 0


def _fail(why: str) -> int:
    print(words.plain(f"hvdlite report: {why}."), file=sys.stderr)
    return 1


def _facts_of(paths: Sequence[Path]) -> Facts:
    """Raises OSError, or ValueError if a file is neither lines of metrics nor a timeline."""
    metrics: list[tuple[Path, MetricsLines]] = []
    traces: list[Trace] = []
    for path in paths:
        found = _read(path)
        if isinstance(found, MetricsLines):
            metrics.append((path, found))
        else:
            traces.append(found)
    if len(metrics) > 1:
        raise ValueError(
            f"{metrics[0][0]} and {metrics[1][0]} are both files of --metrics-file, and a page "
            "shows one job"
        )
    title = paths[0].name
    of_timelines = timelines.facts(traces) if traces else None
    if not metrics:
        assert of_timelines is not None
        return replace(of_timelines, title=title)
    path, told = metrics[0]
    of_metrics = told.history.facts(title, notes=told.notes(path.name))
    return of_metrics if of_timelines is None else _together(of_metrics, of_timelines)


def _together(metrics: Facts, timeline: Facts) -> Facts:
    """Timelines know each operation. The metrics know the whole job."""
    seen = timeline.details
    if seen is not None and metrics.details is not None:
        seen.versions, seen.knobs = metrics.details.versions, metrics.details.knobs
    note = "The tensors, the batches and the overlap are those of the timeline."
    return replace(metrics, details=seen, notes=[*metrics.notes, note])


def _read(path: Path) -> MetricsLines | Trace:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            begins = file.read(1)
            file.seek(0)
            if begins == "[":
                return read_timeline(file.read())
            return read_metrics(file)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


# The file of --metrics-file as a history: lines in, history out.

_MOST_RANKS = 1 << 20
_LATEST = 250_000_000_000  # seconds since 1970: the year 9892
_LARGEST = 1 << 60
# Counters that are tables, and how deep; the others are numbers.
_TABLES = {"seconds_waited_for_rank": 1, "carried_by": 2, "interfaces": 2}
_RATES = (
    "steps_per_second operations_per_second bytes_per_second waiting late_seconds cores "
    "memory_bytes"
).split()


@dataclass
class MetricsLines:
    """The last job of the file."""

    history: History = field(default_factory=History)
    records: int = 0
    jobs: int = 0
    broken: int = 0  # lines that cannot be read: a full disk cuts one

    def notes(self, name: str) -> list[str]:
        said = []
        if self.jobs > 1:
            said.append(f"{name} holds {self.jobs} jobs; this is the last one.")
        if self.broken:
            said.append(f"Lines of {name} that cannot be read: {self.broken}.")
        return said


def read_metrics(lines: Iterable[str]) -> MetricsLines:
    """Raises ValueError if no line is one of `--metrics-file`."""
    found = MetricsLines()
    job = None
    for line in lines:
        if not line.strip():
            continue
        try:
            record = untrusted.parsed(line)
            _check(record)
            began = record.get("began")
            if found.jobs == 0 or began != job:
                job, found.history, found.jobs = began, History(), found.jobs + 1
            found.history.add(record)
            found.records += 1
        except ValueError:
            found.broken += 1
    if not found.records:
        raise ValueError("no line in it is one of --metrics-file")
    return found


def _check(record: Any) -> None:
    """Raises ValueError if it is no line of `--metrics-file`: they come from other people."""
    if not isinstance(record, dict) or not all(_good(record)):
        raise ValueError("it is no line of --metrics-file")


def _good(record: dict[str, Any]) -> Iterator[bool]:
    """Whether each field is what exposition.record() writes there."""
    yield _is_count(record.get("time"), _LATEST)
    yield _is_count(record.get("began", 0), _LATEST)
    yield untrusted.is_whole(record.get("world_changes", 0), 0, _LARGEST)
    yield isinstance(record.get("heading", ""), str)
    ranks = record.get("ranks")
    yield isinstance(ranks, list) and all(map(_is_rank, ranks))
    yield _is_details(record.get("details", {}))
    taken = record.get("taken", [])
    yield isinstance(taken, list) and all(map(_is_taken, taken))


def _is_rank(rank: Any) -> bool:
    if not isinstance(rank, dict):
        return False
    counters = rank.get("counters") or {}
    return (
        untrusted.is_whole(rank.get("rank"), 0, _MOST_RANKS)
        and isinstance(rank.get("host"), str)
        and isinstance(rank.get("note", ""), str)
        and all(rank.get(name) is None or _is_count(rank[name]) for name in _RATES)
        and isinstance(counters, dict)
        and all(_is_counter(name, value) for name, value in counters.items())
    )


def _is_counter(name: str, value: Any) -> bool:
    if name not in _TABLES:
        return _is_count(value)
    by_rank = name == "seconds_waited_for_rank"
    return _are_counts(value, _TABLES[name]) and not (
        by_rank and not all(map(_is_rank_name, value))
    )


def _is_rank_name(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 8


def _is_details(found: Any) -> bool:
    if not isinstance(found, dict):
        return False
    tensors = found.get("tensors", [])
    return (
        isinstance(tensors, list)
        and all(map(_is_tensor, tensors))
        and all(_is_count(found.get(name, 0)) for name in ("operations", "bytes", "seconds"))
        and all(_are_counts(found.get(name, {})) for name in ("ways", "dtypes", "fusion"))
        and _are_counts(found.get("overlap", {}))
        and all(untrusted.are_texts(found.get(name, {})) for name in ("versions", "knobs"))
        and untrusted.is_whole(found.get("rank", 0), 0, _MOST_RANKS)
    )


def _is_tensor(tensor: Any) -> bool:
    return (
        isinstance(tensor, dict)
        and isinstance(tensor.get("name"), str)
        and _are_counts({name: value for name, value in tensor.items() if name != "name"})
    )


def _is_taken(taken: Any) -> bool:
    return (
        isinstance(taken, dict)
        and isinstance(taken.get("host"), str)
        and all(untrusted.is_whole(taken.get(name), 1, _MOST_RANKS) for name in ("ranks", "cores"))
        and all(_is_count(taken.get(name)) for name in ("each", "others"))
        and set(taken) == {"host", "ranks", "cores", "each", "others"}
    )


def _is_count(value: Any, most: float = _LARGEST) -> bool:
    return untrusted.is_number(value, 0, most)


def _are_counts(value: Any, depth: int = 1) -> bool:
    if depth == 0:
        return _is_count(value)
    return isinstance(value, dict) and all(_are_counts(each, depth - 1) for each in value.values())
