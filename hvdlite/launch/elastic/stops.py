"""Members that are stopped while others wait for them. Pure: times are handed in.

Engines notice a process that is stopped, by SIGSTOP or a debugger, because its heart does not beat.
Between two generations there are no engines, so the driver looks at the processes itself.
"""

from __future__ import annotations

LOOKS = 4  # within the time that a process may be stopped
_MISSED = 1  # so many answers may come late


class Stops:
    """`seconds`: a process may be stopped for so long; 0: for ever."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next: float | None = None  # look
        self._looks = 0
        # By member: since when, and the last look that has found it stopped.
        self._found: dict[int, tuple[float, int]] = {}

    def is_due(self, waits: bool, now: float) -> bool:
        """Whether it is time to look. `waits`: a member is waited for."""
        if not waits or not self._seconds:
            self._next = None
            self._found.clear()
            return False
        due = self._next is not None and now >= self._next
        if due or self._next is None:
            self._next = now + self._seconds / LOOKS
        self._looks += due
        return due

    def deadline(self) -> float | None:
        return self._next

    def found(self, member: int, now: float) -> bool:
        """A look has found it stopped. Returns whether it was stopped for too long."""
        since, last = self._found.get(member, (now, self._looks))
        if self._looks - last > 1 + _MISSED:
            since = now
        self._found[member] = since, self._looks
        return self._next is not None and now >= since + self._seconds
