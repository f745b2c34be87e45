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
    found = (Row(i, file, result, by.replace("\\|", "|"), int(s)) for i, file, result, by, s in _ROW.findall(text))
    return {row.id: row for row in found}


def page(ids: Sequence[str], new: Mapping[str, Row], old: str | None = None) -> tuple[str, bool]:
    """The page with the new rows in place of the old ones, and whether the score is good enough."""
    path = ROOT / PAGE
    rows = read(old if old is not None else path.read_text() if path.exists() else "") | dict(new)
    rows = {i: rows[i] for i in ids if i in rows}
    killed = sum(row.result == "killed" for row in rows.values())
    lines = [
        "# The mutants' score",
        "",
        f"{killed} of {len(ids)} killed ({100 * killed / max(1, len(ids)):.0f} %). Written by `scripts/mutants`; the faults are in this folder.",
        "",
        "| id | where | result | by | seconds |",
        "|---|---|---|---|---|",
        *(row.line() for row in rows.values()),
    ]
    return "\n".join(lines) + "\n", killed >= LEAST * len(ids)
