"""When the members are told of a planned change. Pure: times are handed in.

Notices are told at once, as little time may be left, and so are newcomers that are ready where no
other one starts. Else they wait 2 s for others. So do hosts that discovery has no longer named: a
host that flaps changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hvdlite.launch.elastic.crew import Member
from hvdlite.rendezvous.roll import Leaving, News

TOGETHER_SECONDS = 2.0


class Announcements:
    """One per job. A roll answers what was told before it."""

    def __init__(self) -> None:
        self.number = 0  # of the last news
        self._leaving: frozenset[int] = frozenset()  # who was told to leave
        self._ready = False  # newcomers were told of
        self._since: float | None = None  # the first change that was not told

    def due(
        self,
        ready: Sequence[Member],
        leaving: Iterable[Member],
        unlisted: Iterable[Member],
        others_start: bool,
        now: float,
    ) -> bool:
        """Whether it is time to tell of newcomers, of those that leave and of those that are to.

        `others_start`: more newcomers are on their way, and there is room for them.
        """
        noticed, away = _numbers(leaving), _numbers(unlisted)
        if noticed - self._leaving or self._leaving - noticed:
            return True
        if not away and (self._ready or not ready):
            self._since = None
            return False
        if not away and not others_start:
            return True
        self._since = now if self._since is None else self._since
        return now >= self._since + TOGETHER_SECONDS

    def news(
        self,
        generation: int,
        broken: bool,
        lost: tuple[int, ...],
        ready: Sequence[Member],
        leaving: Sequence[Member],
        stop: bool,
        now: float,
    ) -> News:
        """The next one. It says all that is true now."""
        self.number += 1
        self._ready = self._ready or bool(ready)
        self._leaving, self._since = _numbers(leaving), None
        return News(
            number=self.number,
            generation=generation,
            broken=broken,
            lost=lost,
            ready=tuple(member.number for member in ready),
            leaving=tuple(Leaving(m.number, m.seconds_left(now), m.reason) for m in leaving),
            stop=stop,
        )

    def answered(self) -> None:
        """A roll is written."""
        self._ready, self._since, self._leaving = False, None, frozenset()

    def deadline(self) -> float | None:
        return None if self._since is None else self._since + TOGETHER_SECONDS


def _numbers(members: Iterable[Member]) -> frozenset[int]:
    return frozenset(member.number for member in members)
