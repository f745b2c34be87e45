"""Reads the files that `hvdlite report` is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hvdlite.observe.report import lines, timelines
from hvdlite.observe.report.facts import Facts
from hvdlite.observe.report.lines import Read
from hvdlite.observe.timeline.reading import Trace
from hvdlite.observe.timeline.reading import read as read_timeline


def read(paths: Sequence[Path]) -> Facts:
    """Raises OSError, or ValueError if a file is neither lines of metrics nor a timeline."""
    metrics: list[tuple[Path, Read]] = []
    traces: list[Trace] = []
    for path in paths:
        found = _read(path)
        if isinstance(found, Read):
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


def _read(path: Path) -> Read | Trace:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            begins = file.read(1)
            file.seek(0)
            if begins == "[":
                return read_timeline(file.read())
            return lines.read(file)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
