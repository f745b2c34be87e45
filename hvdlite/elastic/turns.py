"""Where the loops of the ranks are, and who is ahead when one is lost. Pure.

A loop makes turns: from a batch to behind the optimizer's step. Between turns the program may do
operations of its own, such as those of a validation. All ranks do the same, so survivors are one
turn or one operation apart at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Moment(NamedTuple):
    """`turns`: how many have begun. `done`: how many operations have ended since the last turn.
    `waits`: for one of these."""

    turns: int
    done: int
    waits: bool


class Alignment(NamedTuple):
    """How survivors come to the same moment. `source`: the rank whose result of the last operation
    is that of the ranks that still wait for it; None: they do it again. `behind`: how many turns
    each rank makes alone."""

    source: int | None
    takes: tuple[bool, ...]
    behind: tuple[int, ...]


class NotAligned(RuntimeError):
    """The loops of the ranks differ by more than a death explains."""


def aligned(moments: Sequence[Moment]) -> Alignment:
    """`moments` are those of the survivors, by rank."""
    newest = max((each.turns, each.done) for each in moments)
    if any(_apart((each.turns, each.done), newest) > 1 for each in moments):
        raise NotAligned(
            "the ranks' loops are at different places: "
            + ", ".join(
                f"rank {rank} at turn {each.turns} and {each.done} operations behind it"
                for rank, each in enumerate(moments)
            )
            + ". Do all ranks call the same collectives, in the same order?"
        )
    takes = tuple(each.waits and (each.turns, each.done) < newest for each in moments)
    ahead = [rank for rank, each in enumerate(moments) if (each.turns, each.done) == newest]
    behind = tuple(newest[0] - each.turns for each in moments)
    return Alignment(ahead[0] if any(takes) else None, takes, behind)


def _apart(mine: tuple[int, int], newest: tuple[int, int]) -> int:
    """In turns if these differ, else in operations."""
    turns = newest[0] - mine[0]
    return turns if turns else newest[1] - mine[1]


class Turn:
    """Where the loop of this rank is."""

    def __init__(self) -> None:
        self.begun = 0
        self.is_open = False
        self.behind = 0  # turns that this rank makes alone
        self.lost: Exception | None = None  # in the open turn: then what follows in it is alone
        self.updated = False  # an optimizer's step of the open turn has changed the weights
        self.done = self._done_before = 0
        self.waits = False

    @property
    def is_burnt(self) -> bool:
        """Whether the reductions of the open turn are not those of all ranks."""
        return self.is_open and (self.lost is not None or self.behind > 0)

    def begin(self) -> None:
        self.is_open, self.begun = True, self.begun + 1
        self.updated, self.lost = False, None
        self._done_before, self.done = self.done, 0

    def withdraw(self) -> None:
        """The open turn has not begun: it is made again."""
        self.is_open, self.begun, self.done = False, self.begun - 1, self._done_before

    def end(self) -> Exception | None:
        """Returns what was lost in it."""
        lost, self.lost, self.is_open = self.lost, None, False
        self.behind -= self.behind > 0
        return lost

    def moment(self) -> Moment:
        return Moment(self.begun, self.done, self.waits)
