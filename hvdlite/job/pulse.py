"""Reports of a rank: a few numbers now and then to the job's store, which `hvdliterun --monitor`
shows.

A thread of its own writes them, and only if the launcher asks for it (HVDLITE_MONITOR). Reading the
counters costs microseconds. Reading the list of past operations costs milliseconds, so it happens
so rarely that it takes 0.05 % of a core.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Sequence
from typing import Any

from hvdlite.job import observe
from hvdlite.launch.monitor.board import report_key
from hvdlite.rendezvous import StoreClient

_LOOK_SHARE = 0.0005
_pulse: _Pulse | None = None


def operations_per_step(recent: Sequence[dict[str, Any]]) -> int | None:
    """Returns how many operations lie between one use of a name and the next: gradients have the
    same names in every step. Returns None if names do not return."""
    seen: dict[tuple[int, str], int] = {}
    distances: list[int] = []
    for operation in recent:
        name, number = (operation["process_set"], operation["name"]), operation["number"]
        if name in seen:
            distances.append(number - seen[name])
        seen[name] = number
    return statistics.median_low(distances[-len(seen) :]) if distances else None


def share_waiting(recent: Sequence[dict[str, Any]]) -> float | None:
    """Returns the share of the time of these operations in which this rank had submitted something
    that others had not."""
    if not recent:
        return None
    intervals = sorted((operation["submitted"], operation["agreed"]) for operation in recent)
    span = max(operation["done"] for operation in recent) - intervals[0][0]
    waited, until = 0.0, intervals[0][0]
    for submitted, agreed in intervals:
        waited += max(0.0, agreed - max(submitted, until))
        until = max(until, agreed)
    return waited / span if span > 0 else None


class _Pulse:
    def __init__(self, rank: int, store: tuple[str, int], secret: bytes, seconds: float) -> None:
        self._key = report_key(rank)
        self._store, self._secret = store, secret
        self._seconds = seconds
        self._stopped = threading.Event()
        self._look_again = 0.0
        self._seen: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, name="hvdlite-pulse", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        try:
            with StoreClient(self._store, self._secret) as client:
                while not self._stopped.wait(self._seconds):
                    client.set(self._key, json.dumps(self._report()).encode())
                last = self._report()
                # After shutdown() there are no counters any more.
                told = last if last["counters"] else {}
                client.set(self._key, json.dumps({"left": True} | told).encode())
        except (ConnectionError, ValueError):
            return  # without a launcher it has no reader

    def _report(self) -> dict[str, Any]:
        counters = observe.metrics()
        now = time.monotonic()
        if (
            counters.get("operations", 0) > self._seen.get("operations", 0)
            and now >= self._look_again
        ):
            before = time.thread_time()
            recent = observe.recent_operations()
            self._seen = {
                "operations": counters["operations"],
                "per_step": operations_per_step(recent),
                "waiting": share_waiting(recent),
                "last": recent[-1]["name"] if recent else "",
            }
            self._look_again = now + (time.thread_time() - before) / _LOOK_SHARE
        return {"clock": now, "counters": counters, "seen": self._seen}


def start(rank: int, store: tuple[str, int], secret: bytes, seconds: float) -> None:
    """Called by init(). `seconds`: the time between two reports."""
    global _pulse
    stop()
    _pulse = _Pulse(rank, store, secret, seconds)


def stop() -> None:
    """Called when the job ends. The thread must be gone before the interpreter ends."""
    global _pulse
    if _pulse is not None:
        _pulse.stop()
    _pulse = None
