"""The tables of docs/reference/versions.md, as text, from what the runs found (results.json). Pure:
`run --write` reads and writes the files."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BEGIN, END = "<!-- tests/versions/run writes from here -->\n", "<!-- to here -->\n"
SUITES_BEGIN = "<!-- tests/versions/torch_suites writes from here -->\n"


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
    by_title: dict[str, dict[str, list[Row]]] = defaultdict(dict)
    for name in names:
        for title, rows in _by_title(found[name].rows if name in found else []).items():
            by_title[title][name] = rows
    parts = []
    for title, ran in by_title.items():
        lines = (_line(found[name], rows) for name, rows in ran.items())
        parts.append(f"### {title}\n\n{_HEAD}" + "".join(lines))
        if notes := _notes(ran, remedies):
            parts.append("".join(f"- {note}\n" for note in notes))
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


def _notes(ran: Mapping[str, Sequence[Row]], remedies: Mapping[tuple[str, str], str]) -> list[str]:
    """Each reason of skipped tests, each failure and each problem once, with its environments."""
    skipped: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    failed: dict[tuple[str, str], list[str]] = defaultdict(list)
    problems = []
    for name, rows in ran.items():
        for row in rows:
            for reason, number in row.skipped.items():
                skipped[reason.removeprefix("Skipped: ")][name] += number
            for test in row.failed:
                failed[test, remedy(name, test, remedies) or "no remedy is known"].append(name)
            if row.problem:
                problems.append(f"{name}: {row.tests} did not end: {row.problem.splitlines()[0]}")
    return [
        *(f"Skipped: {reason}: {_counts(of, ran)}." for reason, of in sorted(skipped.items())),
        *(f"`{test}` fails on {', '.join(on)}: {what}." for (test, what), on in failed.items()),
        *problems,
    ]


def _counts(of: Mapping[str, int], ran: Mapping[str, Sequence[Row]]) -> str:
    """How many tests, in which environments."""
    everywhere = len(set(of.values())) == 1 and of.keys() == ran.keys()
    if everywhere and len(of) > 1:
        return f"{next(iter(of.values()))} in each"
    return ", ".join(f"{number} on {name}" for name, number in of.items())


def remedy(name: str, test: str, remedies: Mapping[tuple[str, str], str]) -> str:
    return next(
        (
            what
            for (environment, start), what in remedies.items()
            if environment == name and test.startswith(start)
        ),
        "",
    )


def written_into(page: str, text: str, begin: str = BEGIN) -> str:
    """The page, with this text between its two marks."""
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(END)
    assert rest and after, "the page lacks its marks"
    return f"{before}{begin}\n{text}\n{END}{after}"


# ---- torch's own tests


#: By version of torch, by file: what torch_suites has written.
Suites = Mapping[str, Mapping[str, Mapping[str, Any]]]


def suites_table(found: Suites) -> str:
    """A line for each file and version."""
    lines = [
        "| torch | tests | pass with gloo | pass with hvdlite | do not, with a reason | "
        "without one | day |\n|---|---|---|---|---|---|---|\n"
    ]
    for version, files in sorted(found.items(), key=lambda each: _numbers(each[0])):
        for file, of in files.items():
            name = "in the package" if file == "wheel" else f"`{file}`"
            lines.append(
                f"| {version} | {name} | {of['gloo']} | {of['hvdlite']} | {of['reasons']} | "
                f"{of['unexplained'] or ''} | {of['day']} |\n"
            )
    return "".join(lines)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.partition("+")[0].split(".")]
