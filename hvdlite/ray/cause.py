"""Whose failure has ended a run, and how long the others have to end by themselves. Pure: times are
arguments."""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass

# A rank that fails because it has lost another one may be heard of before that one.
SETTLE_SECONDS = 1.5
# From the failure on. The core tells the other ranks within a second, and then they run their
# `except` and `finally`.
GRACE_SECONDS = 3.0


class FailureKind(enum.IntEnum):
    """The likeliest cause first."""

    OWN = 0  # the function has raised on this rank
    DEATH = 1  # the actor has died
    CONSEQUENCE = 2  # hvdlite has raised, because another rank was lost


@dataclass(frozen=True)
class ActorFailure:
    rank: int
    kind: FailureKind
    at: float


class CauseFinder:
    """Finds it among the failures of one run."""

    def __init__(self) -> None:
        self._all: list[ActorFailure] = []

    def note(self, rank: int, kind: FailureKind, now: float) -> None:
        self._all.append(ActorFailure(rank, kind, now))

    def cause(self, now: float) -> int | None:
        """Returns the rank whose failure it was; None: none has failed, or the cause may still
        come."""
        if not self._all or (self._only_consequences() and now < self._began() + SETTLE_SECONDS):
            return None
        return self.first()

    def first(self) -> int:
        """Returns the rank whose failure it was, if no more failures come."""
        return min(self._all, key=lambda each: (each.kind, each.at)).rank

    def _only_consequences(self) -> bool:
        return all(each.kind is FailureKind.CONSEQUENCE for each in self._all)

    def left(self, running: Collection[int], now: float) -> float | None:
        """Returns for how many seconds the ranks that still run are waited for; None: for ever."""
        if not self._all:
            return None
        return max(0.0, self._began() + GRACE_SECONDS - now) if running else 0.0

    def _began(self) -> float:
        return self._all[0].at
