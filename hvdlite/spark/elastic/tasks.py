"""Keeps jobs of Spark running, of one task each."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from hvdlite.spark import outcome, sessions
from hvdlite.spark.elastic import station

# Between two tasks of one job; it is doubled while tasks end at once.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_AT_ONCE_SECONDS = 10.0
# Tasks whose connections have ended return by themselves. The others are cancelled, which takes the
# two seconds that Spark gives a Python worker.
_RETURN_SECONDS, _CANCEL_SECONDS = 3.0, 20.0


class Tasks:
    """`count`: how many slots to ask for. `failed` gets Spark's reason for each task that has
    failed, in any thread."""

    def __init__(
        self, session: Any, call: station.Call, count: int, failed: Callable[[str], None]
    ) -> None:
        self._session, self._call, self._failed = session, call, failed
        self._tag = f"hvdlite-{secrets.token_hex(4)}"
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep, name="hvd-spark-job", daemon=True)
            for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._closing.set()
        self._join(_RETURN_SECONDS)
        if any(thread.is_alive() for thread in self._threads):
            sessions.cancel(self._session, self._tag)
            self._join(_CANCEL_SECONDS)

    def _join(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _keep(self) -> None:
        """Spark itself repeats a task that has failed; when it has given up, this begins anew."""
        sessions.tag(self._session, self._tag)
        pause = _FIRST_PAUSE
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                frame = self._session.range(0, 1, 1, 1)
                frame.mapInArrow(_task(self._call), "done int").collect()
            except Exception as error:
                if not self._closing.is_set():
                    self._failed(outcome.why(str(error)))
            lasted = time.monotonic() - began
            pause = _FIRST_PAUSE if lasted > _AT_ONCE_SECONDS else min(2 * pause, _LONGEST_PAUSE)
            self._closing.wait(pause)


def _task(call: station.Call) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What Spark pickles. The executors need hvdlite and pyarrow."""

    def hvdlite_slot(batches: Iterator[Any]) -> Iterator[Any]:
        from hvdlite.spark.elastic import station

        for _ in batches:
            pass
        station.serve(call)
        yield from ()

    return hvdlite_slot
