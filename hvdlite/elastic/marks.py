"""What a state knows of itself: which boundary it is at. Pure."""

from __future__ import annotations

import time
from dataclasses import dataclass

from hvdlite.job.membership import StateProgress

_SHARE = 0.01  # of the time, for copies that `step()` makes


@dataclass
class Marks:
    """`position`: how many boundaries lie behind this rank.

    `whole`: the state is that of its position. It is torn from the first change behind a
    boundary on. Only a program that calls `step()` has an optimizer that says when that is;
    in any other program a state is torn as soon as `commit()` has returned.
    """

    position: int = 0
    whole: bool = False
    copy: int | None = None  # the position of the copy
    steps: bool = False  # the program calls `step()`

    def at_boundary(self) -> None:
        self.position += 1
        self.whole = True

    def copied(self) -> None:
        self.copy = self.position

    def go_on(self) -> None:
        """The program trains on."""
        self.whole = self.steps

    def tear(self) -> None:
        self.whole = False

    def progress(self) -> StateProgress:
        return StateProgress(self.position, self.whole, self.copy)


class Pace:
    """When `step()` makes a copy: so rarely that copies take a hundredth of the time."""

    def __init__(self) -> None:
        self._due = 0.0

    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    def took(self, seconds: float) -> None:
        self._due = time.monotonic() + seconds / _SHARE
