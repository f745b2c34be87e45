"""How fast the other ranks are in the loop that this rank is in.

Each rank writes its steps per second into the job's store now and then, and rank 0 reads them all.
A thread does so. No operation is submitted and no rank waits for another, so ranks may make
different numbers of steps, or none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from hvdlite.job.pace import Rate
from hvdlite.rendezvous import StoreClient

# The time between two reports. With many ranks it is longer, because rank 0 reads one by one.
_SECONDS = 1.0
_SECONDS_PER_RANK = 0.01


class PaceExchange:
    """`count` returns the steps of this rank so far. `key`: in the store, of this loop on all
    ranks."""

    def __init__(
        self,
        store: tuple[tuple[str, int], bytes],
        key: str,
        rank: int,
        size: int,
        count: Callable[[], int],
    ) -> None:
        self._store, self._count, self._key = store, count, key
        self._rank, self._size = rank, size
        self._others: Mapping[int, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hvdlite-pace", daemon=True)
        self._thread.start()

    @property
    def others(self) -> Mapping[int, float]:
        """On rank 0: the steps per second of the ranks that are in this loop, too."""
        return self._others

    def stop(self) -> None:
        """Does not wait for the thread, which may wait for the network."""
        self._stopped.set()

    def _run(self) -> None:
        pause = max(_SECONDS, _SECONDS_PER_RANK * self._size)
        try:
            with StoreClient(*self._store) as client:
                rate = Rate(time.monotonic(), self._count())
                while not self._stopped.wait(pause):
                    mine = rate.read(time.monotonic(), self._count())
                    if self._rank == 0:
                        self._others = self._read(client)
                    else:
                        client.set(f"{self._key}/{self._rank}", repr(mine).encode())
                if self._rank != 0:
                    client.delete(f"{self._key}/{self._rank}")
        except (ConnectionError, ValueError):
            return  # the bar goes on without them

    def _read(self, client: StoreClient) -> dict[int, float]:
        found = {}
        for rank in range(1, self._size):
            try:
                found[rank] = float(client.get(f"{self._key}/{rank}", 0))
            except TimeoutError:
                continue
        return found
