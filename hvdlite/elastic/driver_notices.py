"""The thread that hears the driver's notices while a member trains.

A notice about the end of the present generation aborts its engine, so that waiting calls fail at
once. Other notices wait for the program's next boundary.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from hvdlite.core import engine
from hvdlite.job.membership import Membership, Store
from hvdlite.rendezvous.documents import DriverNotice, Refused, decode_notice

_log = logging.getLogger("hvdlite")
_reader: Reader | None = None


class Reader:
    """`first`: the number of the first notice of interest. `tell` gets each that breaks nothing."""

    def __init__(
        self,
        member: Membership,
        first: int,
        tell: Callable[[DriverNotice], None],
        abort: Callable[[int, str], None] = engine.end_generation,
    ) -> None:
        self.latest: DriverNotice | None = None
        self.heard = 0.0  # when
        self.agreed: DriverNotice | None = None  # at the last boundary at which the ranks had one
        self._recent: dict[int, DriverNotice] = {}  # that the assignment does not answer
        self._changed = threading.Condition()
        self._over = False
        self._member = member
        self._tell = tell
        self._abort = abort
        self._stopped = False
        self._store: Store = member.connect()
        self._thread = threading.Thread(
            target=self._run, args=(first,), name="hvdlite-notices", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._store.close()  # ends the wait
        self._thread.join(5.0)

    def wait(self, done: Callable[[], bool], seconds: float | None = None) -> None:
        """Waits for a notice with which `done` is true. Ends early when none will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or done(), seconds)

    def number(self, number: int) -> DriverNotice | None:
        """Waits for the notice of this number, which another rank has heard already."""
        self.wait(lambda: self.latest is not None and self.latest.number >= number)
        return self._recent.get(number)

    def _run(self, number: int) -> None:
        try:
            while not self._stopped:
                self._hear(decode_notice(self._store.get(f"elastic/notice/{number}")))
                number += 1
        except (ConnectionError, ValueError) as error:
            if isinstance(error, Refused):
                _log.error("notice %d of the job's driver cannot be read: %s", number, error)
            elif not self._stopped:
                _log.warning("no more notices of the job's driver: %s", error)
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _hear(self, notice: DriverNotice) -> None:
        answered = self._member.assignment.answers if self._member.assignment else 0
        recent = {number: kept for number, kept in self._recent.items() if number > answered}
        with self._changed:
            self.latest, self.heard = notice, time.monotonic()
            self._recent = {**recent, notice.number: notice}
            self._changed.notify_all()
        if notice.broken:
            self._member.end(notice.generation, _why(notice, self._member), self._abort)
        else:
            self._tell(notice)


def start(member: Membership, tell: Callable[[DriverNotice], None]) -> Reader:
    """Starts the one reader of this process, behind the notices that the assignment answers."""
    global _reader
    stop()
    _reader = Reader(member, (member.assignment.answers if member.assignment else 0) + 1, tell)
    return _reader


def stop() -> None:
    global _reader
    if _reader is not None:
        _reader.stop()
    _reader = None


def latest() -> DriverNotice | None:
    """The last notice that was heard, if there is a reader."""
    return _reader.latest if _reader else None


def age() -> float:
    """For how many seconds the latest notice is known."""
    return time.monotonic() - _reader.heard if _reader else 0.0


def wait(done: Callable[[DriverNotice], bool], seconds: float) -> None:
    """Waits for a notice with which `done` is true, if there is a reader."""
    if _reader is not None:
        reader = _reader
        reader.wait(lambda: reader.latest is not None and done(reader.latest), seconds)


def agree(number: int) -> DriverNotice | None:
    """The ranks stand at one boundary, and this is the latest notice that one of them has heard.

    They decide on all ranks who leaves: a rank that knows a later one does not use it here.
    """
    if _reader is None or not number:
        return None
    _reader.agreed = _reader.number(number)
    return _reader.agreed


def agreed() -> DriverNotice | None:
    """The notice of the last boundary, unless an assignment answers it."""
    found = _reader.agreed if _reader else None
    assignment = _reader._member.assignment if _reader else None
    return found if found and assignment and found.number > assignment.answers else None


def _why(notice: DriverNotice, member: Membership) -> str:
    numbers = member.assignment.member_numbers() if member.assignment else ()
    lost = [f"member {m} (rank {numbers.index(m)})" for m in notice.lost if m in numbers]
    who = ", ".join(lost) or "a member"
    return f"hvdliterun has lost {who}"
