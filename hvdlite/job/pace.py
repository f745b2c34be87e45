"""What a progress bar says of the other ranks. Pure, but for the exchange: times are arguments."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from hvdlite.rendezvous import StoreClient

# Rates cover the last seconds, as those of `hvdliterun --monitor`.
WINDOW_SECONDS = 10.0
# Smaller differences are noise.
_SLOWER = 0.9
_SHARE_WORTH_A_WORD = 0.1


class Rate:
    """How fast a counter grows."""

    def __init__(self, now: float, count: float = 0) -> None:
        self._readings = deque([(now, count)])  # those within the window, and one before it

    def read(self, now: float, count: float) -> float:
        """Returns the growth per second within the window."""
        readings = self._readings
        readings.append((now, count))
        while len(readings) > 2 and readings[1][0] <= now - WINDOW_SECONDS:
            readings.popleft()
        span = now - readings[0][0]
        return (count - readings[0][1]) / span if span > 0 else 0.0


def about_others(
    mine: float, others: Mapping[int, float], waited: Mapping[int, float], unit: str
) -> str:
    """Returns which rank is the slowest, or an empty text if none stands out.

    `mine`: this rank's steps per second; `others`: those of other ranks, as far as they are known;
    `waited`: for each rank, the share of the time in which all others waited for it.
    """
    if others:
        slowest = min(others, key=lambda rank: (others[rank], rank))
        if others[slowest] < _SLOWER * mine:
            return f"slowest: rank {slowest}, {number(others[slowest])} {unit}/s"
    if len(waited) > 1:
        last = max(waited, key=lambda rank: (waited[rank], -rank))
        if waited[last] > _SHARE_WORTH_A_WORD:
            return f"{min(waited[last], 1.0):.0%} waits for rank {last}"
    return ""


def line(
    desc: str, unit: str, count: int, total: int | None, seconds: float, rate: float, note: str
) -> str:
    """Returns how far a loop is, for a log."""
    done = f"{count} of {total} ({count / total:.0%})" if total else f"{count}"
    if total and count < total and rate > 0:
        when = f"{duration((total - count) / rate)} left"
    else:
        when = f"{duration(seconds)} so far"
    text = ", ".join([done, f"{number(rate)} {unit}/s", when, *([note] if note else [])])
    return f"{desc}: {text}" if desc else text


def number(rate: float) -> str:
    """Returns three digits."""
    return f"{rate:.0f}" if rate >= 100 or rate == 0 else f"{rate:.3g}"


def duration(seconds: float) -> str:
    """Returns 1:05 or 1:00:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# ---- The exchange

# The time between two reports. With many ranks it is longer, because rank 0 reads one by one.
_SECONDS = 1.0
_SECONDS_PER_RANK = 0.01


class PaceExchange:
    """How fast the other ranks are in the loop that this rank is in.

    Each rank writes its steps per second into the job's store now and then, and rank 0 reads them
    all. A thread does so. No operation is submitted and no rank waits for another, so ranks may
    make different numbers of steps, or none.

    `count` returns the steps of this rank so far. `key`: in the store, of this loop on all ranks.
    """

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
