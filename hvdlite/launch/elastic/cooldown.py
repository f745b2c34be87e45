"""How long a slot or a host stays empty after a failure. Pure: times and chance are handed in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

#: A host, or a host and a slot.
Place = str | tuple[str, int]

DEFAULT_RANGE = (1.0, 60.0)
FORGET_SECONDS = 600.0
_FOR_GOOD = math.inf


@dataclass
class _Record:
    failures: int
    last: float
    until: float


class Cooldowns:
    """How long which places are empty.

    With a range (MIN, MAX) the k-th failure, counted from 0, empties a place for MIN * 2**k
    and up to MIN more by chance, but never longer than MAX.
    Without one it is 1 s, doubled by each failure up to 60 s; chance has no part in it.
    Failures are forgotten after 10 minutes without one.
    A failure of an empty place does not extend its time.
    """

    def __init__(
        self,
        seconds: tuple[float, float] | None = None,
        chance: Callable[[], float] = lambda: 0.0,
        for_good: bool = False,
    ) -> None:
        """`chance` gives numbers from 0 to 1. `for_good`: a place stays empty for ever."""
        self._least, self._most = seconds or DEFAULT_RANGE
        self._chance = chance if seconds else lambda: 0.0
        self._for_good = for_good
        self._records: dict[Place, _Record] = {}

    def failed(self, place: Place, now: float) -> float:
        """A place is empty from now on. Returns for how many seconds."""
        record = self._records.get(place)
        if record is None or now - max(record.last, record.until) >= FORGET_SECONDS:
            record = self._records[place] = _Record(0, now, now)
        if now >= record.until:
            record.until = now + self._seconds(record.failures)
            record.failures += 1
        record.last = now
        return record.until - now

    def empty(self, place: Place, now: float) -> bool:
        record = self._records.get(place)
        return record is not None and now < record.until

    def running(self, now: float) -> dict[Place, float]:
        """For how many seconds which places are empty still."""
        ends = {place: record.until - now for place, record in self._records.items()}
        return {place: seconds for place, seconds in ends.items() if seconds > 0}

    def next_end(self, now: float) -> float | None:
        """When the next place may be filled again."""
        ends = [record.until for record in self._records.values() if now < record.until < _FOR_GOOD]
        return min(ends, default=None)

    def _seconds(self, failures: int) -> float:
        if self._for_good:
            return _FOR_GOOD
        doubled = self._least * 2.0 ** min(failures, 64)
        return min(max(doubled + self._least * self._chance(), self._least), self._most)
