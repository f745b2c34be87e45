"""How much a log is told of what may come without end. Pure: times are handed in."""

from __future__ import annotations

FIRST = 5
SECONDS = 60.0


class Quota:
    """The first few lines are written; what follows is counted, and the count is told once per interval for as long as
    more comes. After an interval in which nothing came there are first lines again."""

    def __init__(self) -> None:
        self._end = float("-inf")  # of the interval
        self._allowed = 0
        self._left_out = 0

    def allows(self, now: float) -> bool:
        """Whether a line is written that would be now."""
        if now >= self._end and not self._left_out:
            self._end, self._allowed = now + SECONDS, FIRST
        if self._allowed:
            self._allowed -= 1
            return True
        self._left_out += 1
        return False

    def due(self) -> float | None:
        """When the count has to be told; None: there is nothing to tell."""
        return self._end if self._left_out else None

    def take(self, now: float) -> int:
        """The count, if it has to be told now; else 0."""
        if not self._left_out or now < self._end:
            return 0
        count, self._left_out = self._left_out, 0
        self._end, self._allowed = now + SECONDS, 0
        return count
