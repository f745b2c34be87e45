"""Findings about a program, one line each."""

from __future__ import annotations

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
