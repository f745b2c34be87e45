"""What a launcher wants of the ranks, in the key WANTED of the job's store: reports while `hvdlite
top` is attached, and a bundle when it asks for one.

A rank that sleeps waits for the key, and one that reports anyway looks at it.
"""

from __future__ import annotations

import itertools
import time

from hvdlite.launch.monitor.board import WANTED, Wish
from hvdlite.rendezvous.server import StoreServer

# By then all ranks have looked, unless they are busy.
_DUMP_SECONDS = 3.0


class Wanted:
    """`seconds`: the time between two reports."""

    def __init__(self, store: StoreServer, seconds: float) -> None:
        self._store, self._seconds = store, seconds
        self._reports = False
        self._dump, self._until = 0, 0.0
        self._dumps = itertools.count(time.time_ns())  # of no launcher before

    def reports(self, wanted: bool) -> None:
        self._reports = wanted
        self._put()

    def dump(self) -> None:
        """Asks all ranks once."""
        self._dump, self._until = next(self._dumps), time.monotonic() + _DUMP_SECONDS
        self._put()

    def tick(self) -> float | None:
        """Returns the seconds until the next call, if one is needed."""
        if not self._dump:
            return None
        left = self._until - time.monotonic()
        if left > 0:
            return left
        self._dump = 0  # a rank that comes later is not asked
        self._put()
        return None

    def _put(self) -> None:
        if self._reports or self._dump:
            self._store.put(WANTED, Wish(self._reports, self._seconds, self._dump).encode())
        else:
            self._store.delete(WANTED)
