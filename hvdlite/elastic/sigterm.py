"""SIGTERM is notice: the rank leaves at the next boundary.

So it is while `run` trains, and where the program has no handler of its own.
The handler runs between any two lines of the main thread, which may hold a lock. Therefore it only
wakes a thread, and this thread tells the driver.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import threading
from types import FrameType

from hvdlite.elastic import notices
from hvdlite.job.membership import Member, Store
from hvdlite.rendezvous.documents import OVER

_log = logging.getLogger("hvdlite")
# A driver that ends this process says so before it sends SIGTERM.
_OVER_SECONDS = 1.0
_present: Sigterm | None = None


class Sigterm:
    """Use as a context manager."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._caught: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._store: Store | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Sigterm:
        global _present
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self._thread = threading.Thread(target=self._run, name="hvdlite-notice", daemon=True)
            self._thread.start()
            _present = self
            signal.signal(signal.SIGTERM, _handle)
        return self

    def __exit__(self, *_: object) -> None:
        global _present
        if self._thread is None:
            return
        _restore()
        _present = None
        self._stopped = True
        self._caught.put(False)
        if self._store is not None:
            self._store.close()  # ends a wait
        self._thread.join(5.0)

    def caught(self) -> None:
        self._caught.put(True)

    def _run(self) -> None:
        while self._caught.get():
            try:
                notices.ask(self._member, "SIGTERM")
                over = not self._stopped and self._is_over()
            except ConnectionError as error:
                if self._stopped:
                    return
                _log.warning("SIGTERM ends this process: %s", error)
                over = True
            if over:
                os._exit(128 + signal.SIGTERM)

    def _is_over(self) -> bool:
        self._store = self._member.connect()
        try:
            self._store.get(f"elastic/{OVER}/{self._member.number}", _OVER_SECONDS)
        except TimeoutError:
            return False
        finally:
            self._store.close()
        return True


def _handle(number: int, frame: FrameType | None) -> None:
    if _present is not None:
        _present.caught()


def _restore() -> None:
    """The program may have set a handler of its own meanwhile."""
    if signal.getsignal(signal.SIGTERM) == _handle:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _in_child() -> None:
    """A data loader's worker ends by SIGTERM, as it would without hvdlite."""
    with contextlib.suppress(ValueError):
        _restore()


os.register_at_fork(after_in_child=_in_child)
