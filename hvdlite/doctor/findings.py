"""What is said about a program, one line each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """How much it matters, worst first."""

    CHANGE = "change"  # does not work as it stands
    DIFFERS = "differs"  # works, but not just as with Horovod
    HINT = "hint"  # worth a look; may well be right
    WORKS = "works"


@dataclass(frozen=True)
class Finding:
    """`name`: what it is about, by Horovod's full name where it is one of Horovod's. `sentence`: what to know or to do."""

    kind: Kind
    file: str
    line: int
    name: str
    sentence: str
    cell: int = 0  # of a notebook, in which lines are counted anew
