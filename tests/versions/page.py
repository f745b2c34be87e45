"""The tables of docs/reference/versions.md, as text, from what the runs found (results.json). Pure:
`run --write` reads and writes the files."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BEGIN, END = "<!-- tests/versions/run writes from here -->\n", "<!-- to here -->\n"


@dataclass
class Row:
    """What one battery found in one environment."""

    title: str  # of the table that it belongs to
    tests: str  # what ran: a file, and what was chosen from it
    passed: int = 0
    failed: list[str] = field(default_factory=list)  # names of tests
    skipped: dict[str, int] = field(default_factory=dict)  # how many, for each reason
    seconds: float = 0.0
    problem: str = ""  # what kept tests from running, or from ending


@dataclass
class Found:
    """What a run found in one environment."""

    day: str
    python: str
    commit: str
    versions: dict[str, str]
    rows: list[Row]

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Found:
        return cls(**{**written, "rows": [Row(**row) for row in written["rows"]]})


def tables(
    names: Sequence[str], found: Mapping[str, Found], remedies: Mapping[tuple[str, str], str]
) -> str:
    """One for each title, with a line for each environment, in the order of `names`."""
    lines: dict[str, list[str]] = defaultdict(list)
    notes: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if name not in found:
            continue
        here = found[name]
        for title, rows in _by_title(here.rows).items():
            lines[title].append(_line(here, rows))
            notes[title] += _notes(name, here, rows, remedies)
    parts = []
    for title, its_lines in lines.items():
        parts.append(f"### {title}\n\n{_HEAD}" + "".join(its_lines))
        if notes[title]:
            parts.append("".join(dict.fromkeys(notes[title])))
    missing = [name for name in names if name not in found]
    if missing:
        parts.append(
            textwrap.fill(f"Not run yet: {', '.join(missing)}.", 100, break_on_hyphens=False) + "\n"
        )
    return "\n".join(parts)


_HEAD = """\
| versions | Python | passed | failed | skipped | day |
|---|---|---|---|---|---|
"""


def _by_title(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The look at the binaries has no title, and no table."""
    by_title: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.title:
            by_title[row.title].append(row)
    return by_title


def _line(here: Found, rows: Sequence[Row]) -> str:
    if any(row.problem for row in rows):
        counts = "did not end | |"
    else:
        counts = (
            f"{sum(row.passed for row in rows)} | {sum(len(row.failed) for row in rows)} | "
            f"{sum(sum(row.skipped.values()) for row in rows) or ''}"
        )
    versions = ", ".join(f"{name} {version}" for name, version in here.versions.items())
    return f"| {versions} | {here.python} | {counts} | {here.day} |\n"


def _notes(
    name: str, here: Found, rows: Sequence[Row], remedies: Mapping[tuple[str, str], str]
) -> list[str]:
    """A line for each reason of skipped tests, and for each failure."""
    reasons: dict[str, int] = defaultdict(int)
    for row in rows:
        for reason, number in row.skipped.items():
            reasons[reason.removeprefix("Skipped: ")] += number
    said = [f"- {name}: {n} skipped: {reason}.\n" for reason, n in sorted(reasons.items())]
    for row in rows:
        if row.problem:
            said.append(f"- {name}: {row.tests} did not end: {row.problem.splitlines()[0]}\n")
        for test in row.failed:
            what = remedy(name, test, remedies) or "no remedy is known"
            said.append(f"- {name}: `{test}` fails: {what}.\n")
    return said


def remedy(name: str, test: str, remedies: Mapping[tuple[str, str], str]) -> str:
    return next(
        (
            what
            for (environment, start), what in remedies.items()
            if environment == name and test.startswith(start)
        ),
        "",
    )


def written_into(page: str, text: str) -> str:
    """The page, with this text between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    assert rest and after, "the page lacks its marks"
    return f"{before}{BEGIN}\n{text}\n{END}{after}"
