"""Findings about a program, one line each: as text for people and as JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The severity, worst first."""

    CHANGE = "change"  # does not work unchanged
    DIFFERS = "differs"  # works, but differs from Horovod
    HINT = "hint"  # a hint; the program may well be right
    WORKS = "works"


@dataclass(frozen=True)
class Finding:
    """`name`: the subject, by Horovod's full name if it is one of Horovod's. `sentence`: what to
    know or to do."""

    kind: Kind
    file: str
    line: int
    name: str
    sentence: str
    cell: int = 0  # of a notebook, in which each cell counts its own lines


_ORDER = list(Kind)


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """Returns the findings file by file, the worst first."""
    return sorted(findings, key=lambda f: (f.file, _ORDER.index(f.kind), f.cell, f.line, f.name))


def to_text(findings: Sequence[Finding]) -> str:
    """Returns one line for each, and the totals."""
    lines = [f"{_place(f)}: {f.kind.value}: {f.name}: {f.sentence}" for f in in_order(findings)]
    if not findings:
        return "Nothing of Horovod is used here."
    counts = {kind: sum(f.kind is kind for f in findings) for kind in Kind}
    lines.append(
        f"{counts[Kind.CHANGE]} to change, {counts[Kind.DIFFERS]} that differ, {counts[Kind.HINT]} "
        f"hints, {counts[Kind.WORKS]} names that work as they are."
    )
    return "\n".join(lines)


def _place(finding: Finding) -> str:
    return f"{finding.file}:{f'cell {finding.cell}:' if finding.cell else ''}{finding.line}"


def to_json(findings: Sequence[Finding], unreadable: Sequence[str]) -> str:
    """Returns the same as an object."""
    rows = [vars(finding) | {"kind": finding.kind.value} for finding in in_order(findings)]
    for row in rows:
        if not row["cell"]:
            del row["cell"]
    return json.dumps({"findings": rows, "unreadable": list(unreadable)}, indent=2)
