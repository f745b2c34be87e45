"""The pictures over time: steps and waiting. Pure."""

from __future__ import annotations

from hvdlite.observe.report import axes, charts, series, words
from hvdlite.observe.report.facts import Facts
from hvdlite.observe.report.history import average
from hvdlite.observe.report.sections import section

_LEAST_TOP = 0.05
# The first steps compile and fill caches. They must not make all others flat.
_USUAL, _FAR_BEYOND = 0.9, 2.0
_STEPS = (
    "The time between one use of a tensor's name and the next, on each rank. Ranks report the mean "
    "of 10 seconds; a timeline has each step. A dashed line is a change of the ranks or a failure."
)
_WAITING = (
    "The share of the time in which a rank had asked for an operation that another rank had not. "
    "A rank that waits little while the others wait much holds them up."
)


def steps(facts: Facts) -> str:
    """Step time per rank over time."""
    drawn = series.step_lines(facts)
    if not drawn:
        return ""
    _, seconds = series.span(facts)
    known = sorted(value for line in drawn for _, value in line.points if value is not None)
    usual = _FAR_BEYOND * known[int(_USUAL * (len(known) - 1))]
    highest = min(known[-1], usual)
    note = _STEPS
    if highest < known[-1]:
        note += f" Longer steps are cut off; the longest took {words.seconds(known[-1])}."
    picture = charts.lines(drawn, seconds, highest, axes.unit_of(highest), series.marks(facts))
    names = charts.legend(dict.fromkeys((line.label, line.colour) for line in drawn))
    return section("Step time", note, picture + names)


def waiting(facts: Facts) -> str:
    """A heat map of ranks and time."""
    rows = series.waiting_rows(facts)
    known = [value for _, values in rows for value in values if value is not None]
    if not known or len(rows) < 2:
        return ""
    top = max(_LEAST_TOP, min(1.0, axes.rounded_up(max(known))))
    _, seconds = series.span(facts)
    drawn = [(str(rank), _title(rank, values, facts), values) for rank, values in rows]
    picture = charts.heat_map(drawn, seconds, top, series.marks(facts)) + charts.scale(top)
    note = _WAITING
    if len(rows) < len(facts.hosts):
        note += f" Of {len(facts.hosts)} ranks, these {len(rows)} wait least or most."
    return section("Waiting for other ranks", note, picture)


def _title(rank: int, values: list[float | None], facts: Facts) -> str:
    mean = average(values)
    most = max((value for value in values if value is not None), default=None)
    name = series.named(rank, facts)
    if mean is None or most is None:
        return f"{name}: not known"
    return f"{name}: {words.percent(mean)} on average, {words.percent(most)} at most"
