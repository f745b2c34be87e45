"""When an agent counts as lost because it does not answer. Pure: times are handed in.

sshd answers the questions of ssh, even where the agent is stopped. So the driver asks the agent
itself. It counts questions and not seconds: a launcher that was suspended has asked none meanwhile.
"""

from __future__ import annotations

from hvdlite.launch.spawn.silent_hosts import PAUSE, most_unanswered


class KeepAlive:
    """Of one agent. `silence`: the seconds of an outage that it outlives; 0: it is never asked."""

    def __init__(self, silence: float, now: float) -> None:
        self._most = most_unanswered(silence)
        self._next = now
        self._open = 0

    @property
    def is_lost(self) -> bool:
        return self._open > self._most

    def heard(self) -> None:
        """It has sent something, or was not read until now."""
        self._open = 0

    def is_due(self, now: float) -> bool:
        """Whether it has to be asked now. The answer calls heard()."""
        if not self._most or now < self._next:
            return False
        self._next = now + PAUSE
        self._open += 1
        return True

    def left(self, now: float) -> float | None:
        """The seconds until the next question."""
        return max(0.0, self._next - now) if self._most else None
