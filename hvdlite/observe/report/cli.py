"""What `hvdlite report` does: reads files, makes the page."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hvdlite.base import private_file
from hvdlite.observe.report import lines, timelines, words
from hvdlite.observe.report.facts import Facts
from hvdlite.observe.report.findings import findings
from hvdlite.observe.report.lines import MetricsFile
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
    metrics: list[tuple[Path, MetricsFile]] = []
    traces: list[Trace] = []
    for path in paths:
        found = _read(path)
        if isinstance(found, MetricsFile):
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


def _read(path: Path) -> MetricsFile | Trace:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            begins = file.read(1)
            file.seek(0)
            if begins == "[":
                return read_timeline(file.read())
            return lines.read(file)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
