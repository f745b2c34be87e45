"""The sections about ranks: steps and waiting over time, a table, changes, environment. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from hvdlite.observe.report import charts, series, words
from hvdlite.observe.report.charts import Bar, section, table
from hvdlite.observe.report.facts import Facts, Point
from hvdlite.observe.report.history import average
from hvdlite.observe.report.words import escaped

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
    chart = charts.lines(drawn, seconds, highest, words.unit_of(highest), series.marks(facts))
    names = charts.legend(dict.fromkeys((line.label, line.colour) for line in drawn))
    return section("Step time", note, chart + names)


def waiting(facts: Facts) -> str:
    """A heat map of ranks and time."""
    rows = series.waiting_rows(facts)
    known = [value for _, values in rows for value in values if value is not None]
    if not known or len(rows) < 2:
        return ""
    top = max(_LEAST_TOP, min(1.0, charts.rounded_up(max(known))))
    _, seconds = series.span(facts)
    drawn = [(str(rank), _title(rank, values, facts), values) for rank, values in rows]
    chart = charts.heat_map(drawn, seconds, top, series.marks(facts)) + charts.scale(top)
    note = _WAITING
    if len(rows) < len(facts.hosts):
        note += f" Of {len(facts.hosts)} ranks, these {len(rows)} wait least or most."
    return section("Waiting for other ranks", note, chart)


def _title(rank: int, values: list[float | None], facts: Facts) -> str:
    mean = average(values)
    most = max((value for value in values if value is not None), default=None)
    name = series.named(rank, facts)
    if mean is None or most is None:
        return f"{name}: not known"
    return f"{name}: {words.percent(mean)} on average, {words.percent(most)} at most"


_SHOWN_BARS = 10
_SHOWN_ROWS = 64


def waited_for(facts: Facts) -> str:
    """The ranks that came last."""
    if len(facts.waited_for) < 2 or not facts.active or not any(facts.waited_for.values()):
        return ""
    ordered = sorted(facts.waited_for.items(), key=lambda each: -each[1])
    shown = [(r, s, min(1.0, s / facts.active)) for r, s in ordered[:_SHOWN_BARS]]
    drawn = charts.bars(
        Bar(series.named(rank, facts), share, words.percent(share), words.duration(seconds), 2)
        for rank, seconds, share in shown
    )
    note = "The share of the time in which an operation waited for this rank as the last one."
    if len(shown) < len(ordered):
        note += f" The first {len(shown)} of {len(ordered)} ranks."
    return section("Which rank the others wait for", note, drawn)


def all_ranks(facts: Facts) -> str:
    """A row for each rank."""
    if not facts.hosts:
        return ""
    shown = sorted(facts.hosts)
    if len(shown) > _SHOWN_ROWS:
        late = sorted(shown, key=lambda rank: -facts.waited_for.get(rank, 0.0))
        shown = sorted(late[:_SHOWN_ROWS])
    means = series.means(facts, shown)
    rows = "".join(_row(rank, facts, means[rank]) for rank in shown)
    head = (
        '<tr><th>rank</th><th class="left">host</th><th>step</th><th>waiting</th>'
        "<th>waited for</th><th>CPU</th><th>memory</th><th>operations</th><th>failed</th></tr>"
    )
    note = "Means of the whole job. CPU: 100 % is one core."
    if len(shown) < len(facts.hosts):
        note += f" Of {len(facts.hosts)} ranks, the {len(shown)} that the others waited for most."
    return section("Ranks", note, table(head, rows))


def _row(rank: int, facts: Facts, mean: Point) -> str:
    totals = facts.totals.get(rank)
    cells = [
        words.seconds(mean.step),
        "–" if mean.waiting is None else words.percent(mean.waiting),
        words.duration(facts.waited_for[rank]) if rank in facts.waited_for else "–",
        "–" if mean.cores is None else words.percent(mean.cores),
        words.size(mean.memory),
        words.count(totals.operations if totals else None),
        words.count(totals.failures if totals else None),
    ]
    host = escaped(facts.hosts[rank])
    texts = "".join(f"<td>{escaped(cell)}</td>" for cell in cells)
    return f'<tr><td>{rank}</td><td class="left">{host}</td>{texts}</tr>'


def events(facts: Facts) -> str:
    """World changes and failures."""
    if not facts.events:
        return ""
    begin, _ = series.span(facts)
    rows = "".join(
        f"<tr><td>{escaped(words.duration(max(0.0, event.time - begin)))}</td>"
        f'<td class="left long">{escaped(event.text)}</td></tr>'
        for event in facts.events
    )
    head = '<tr><th>after</th><th class="left">what</th></tr>'
    changes = facts.world_changes
    note = f"The ranks have changed {changes} time{'' if changes == 1 else 's'}." if changes else ""
    return section("World changes and failures", note, table(head, rows))


def environment(facts: Facts) -> str:
    """Versions, and the knobs that were set."""
    seen = facts.details
    if seen is None or not (seen.versions or seen.knobs):
        return ""
    return _pairs("Versions", seen.versions.items(), "What the program had imported.") + _pairs(
        "Knobs",
        seen.knobs.items(),
        "Those that differ from their defaults. Nothing that sounds like a secret is shown.",
    )


def _pairs(title: str, items: Iterable[tuple[str, str]], note: str) -> str:
    rows = "".join(
        f'<tr><td class="left"><code>{escaped(name)}</code></td>'
        f'<td class="left long">{escaped(value)}</td></tr>'
        for name, value in items
    )
    return section(title, note, table("", rows)) if rows else ""
