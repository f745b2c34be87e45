"""Limits the lines of a log about events that may come without end. Pure: times are arguments."""

from __future__ import annotations

FIRST = 5
SECONDS = 60.0


class Quota:
    """Allows the first few lines of an interval. Then it counts, and the count is reported once per
    interval as long as more comes. After an interval without events, first lines are allowed again.
    """

    def __init__(self) -> None:
        self._end = float("-inf")  # within the interval
        self._allowed = 0
        self._left_out = 0

    def allows(self, now: float) -> bool:
        """Whether a line may be written at `now`."""
        if now >= self._end and not self._left_out:
            self._end, self._allowed = now + SECONDS, FIRST
        if self._allowed:
            self._allowed -= 1
            return True
        self._left_out += 1
        return False

    def due(self) -> float | None:
        """Returns when the count must be reported; None: there is nothing to report."""
        return self._end if self._left_out else None

    def take(self, now: float) -> int:
        """Returns the count if it must be reported now; else 0."""
        if not self._left_out or now < self._end:
            return 0
        count, self._left_out = self._left_out, 0
        self._end, self._allowed = now + SECONDS, 0
        return count
