"""The sections about ranks, events and surroundings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hvdlite.observe.report import charts, series, words
from hvdlite.observe.report.charts import Bar
from hvdlite.observe.report.facts import Facts, Point
from hvdlite.observe.report.sections import section, table
from hvdlite.observe.report.words import escaped

_SHOWN_BARS = 10
_SHOWN_ROWS = 64


def waited_for(facts: Facts) -> str:
    """The ranks that came last."""
    if len(facts.waited_for) < 2 or not facts.active or not any(facts.waited_for.values()):
        return ""
    ordered = sorted(facts.waited_for.items(), key=lambda each: -each[1])
    shown = ordered[:_SHOWN_BARS]
    drawn = charts.bars(
        Bar(series.named(rank, facts), min(1.0, seconds / facts.active),
            words.percent(min(1.0, seconds / facts.active)), words.duration(seconds), 2)
        for rank, seconds in shown
    )  # fmt: skip
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


def surroundings(facts: Facts) -> str:
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
    rows: Sequence[str] = [
        f'<tr><td class="left"><code>{escaped(name)}</code></td>'
        f'<td class="left long">{escaped(value)}</td></tr>'
        for name, value in items
    ]
    if not rows:
        return ""
    return section(title, note, table("", "".join(rows)))
