"""tests/mutants/SCORE.md: what became of each mutant when it was last run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mutants.mutant import ROOT

PAGE = "tests/mutants/SCORE.md"
LEAST = 0.95  # of the mutants have to be killed
_ROW = re.compile(r"^\| (\S+) \| (\S+) \| (\w+) \| (.*) \| (\d+) \|$", re.M)


@dataclass(frozen=True)
class Row:
    id: str
    file: str
    result: str  # killed, SURVIVED, HUNG or BROKEN
    by: str
    seconds: int

    def line(self) -> str:
        by = self.by.replace("|", "\\|")
        return f"| {self.id} | {self.file} | {self.result} | {by} | {self.seconds} |"


def read(text: str) -> dict[str, Row]:
    found = (
        Row(i, file, result, by.replace("\\|", "|"), int(s))
        for i, file, result, by, s in _ROW.findall(text)
    )
    return {row.id: row for row in found}


def page(ids: Sequence[str], new: Mapping[str, Row], old: str) -> str:
    """The page with the new rows in place of the old ones; of `ids` only."""
    rows = read(old) | dict(new)
    rows = {i: rows[i] for i in ids if i in rows}
    lines = [
        "# The mutants' score",
        "",
        told(ids, rows)[1],
        "",
        "| id | where | result | by | seconds |",
        "|---|---|---|---|---|",
        *(row.line() for row in rows.values()),
    ]
    return "\n".join(lines) + "\n"


def told(ids: Sequence[str], rows: Mapping[str, Row]) -> tuple[bool, str]:
    """Whether the score is good enough, and in words."""
    killed = sum(row.result == "killed" for row in rows.values())
    missing = [i for i in ids if i not in rows]
    left_out = f" Not run: {', '.join(missing)}." if missing else ""
    sentence = f"{killed} of {len(ids)} killed ({100 * killed / max(1, len(ids)):.0f} %).{left_out}"
    return killed >= LEAST * len(
        ids
    ), f"{sentence} Written by `scripts/mutants`; the faults are in this folder."


def current() -> str:
    path = ROOT / PAGE
    return path.read_text() if path.exists() else ""


def note(ids: Sequence[str], row: Row) -> None:
    """Writes the page anew, with this row."""
    (ROOT / PAGE).write_text(page(ids, {row.id: row}, current()))


def summary(ids: Sequence[str]) -> tuple[bool, str]:
    return told(ids, read(current()))
