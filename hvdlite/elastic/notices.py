"""Announced ends: ranks that are about to leave, how a rank asks to leave, and SIGTERM."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import threading
from dataclasses import dataclass
from types import FrameType

from hvdlite.elastic import driver_notices
from hvdlite.job import membership
from hvdlite.job.membership import Membership, Store
from hvdlite.rendezvous import documents
from hvdlite.rendezvous.documents import OVER, DriverNotice

__all__ = ["Notice", "leave", "leaving"]

# leave() returns before the driver has answered if that takes longer.
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Notice:
    """Ranks that leave at the next boundary."""

    ranks: tuple[int, ...]  # in the present generation
    members: tuple[int, ...]  # the same processes, by their numbers
    seconds: float  # until the first of them is killed, if it has not left by then
    reason: str  # of the first of them
    this_rank: bool  # is one of them
    whole_job: bool  # no rank stays


def leave(reason: str = "") -> None:
    """Asks to leave: at the next boundary this rank leaves the job, and the others go on.

    Returns when the other ranks are told. A boundary is `state.commit()`, `state.step()` or
    `state.check_host_updates()`; there the function under `run` is left, and the process ends
    with exit code 0.
    """
    found = membership.member()
    if found is None:
        raise RuntimeError(
            "hvd.elastic.leave() is for elastic jobs: call it after hvd.init() in a job that "
            "hvdliterun has started with --min-np or --host-discovery-script."
        )
    ask(found, reason)
    number = found.number
    driver_notices.wait(
        lambda told: told.broken or number in _members(told, found), _PATIENCE_SECONDS
    )


def leaving() -> Notice | None:
    """Returns who is about to leave at the next boundary; None: no rank is."""
    found, told = membership.member(), driver_notices.latest()
    if found is None or told is None:
        return None
    return notice(told, found, driver_notices.age())


def ask(member: Membership, reason: str) -> None:
    """Tells the driver, over a connection of its own: another thread may wait on the member's."""
    store = member.connect()
    try:
        key = f"{documents.LEAVE}/{member.number}"
        store.set(
            f"elastic/{key}",
            documents.encode_leave_request(documents.leave_request(reason), key, member.token),
        )
    finally:
        store.close()


def notice(told: DriverNotice, member: Membership, age: float = 0.0) -> Notice | None:
    """What this notice says of leavers. `age`: for how many seconds it is known."""
    leavers = _members(told, member)
    if member.assignment is None or told.number <= member.assignment.answers or not leavers:
        return None
    numbers = member.assignment.member_numbers()
    first = min(told.leaving, key=lambda each: each.seconds, default=None)
    return Notice(
        ranks=tuple(rank for rank, number in enumerate(numbers) if number in leavers),
        members=leavers,
        seconds=max(0.0, first.seconds - age) if first else 0.0,
        reason=first.reason if first else "",
        this_rank=member.number in leavers,
        whole_job=set(numbers) <= set(leavers),
    )


def _members(told: DriverNotice, member: Membership) -> tuple[int, ...]:
    numbers = member.assignment.member_numbers() if member.assignment else (member.number,)
    named = {each.member for each in told.leaving}
    return tuple(number for number in numbers if told.stop or number in named)


# SIGTERM is notice while `run` trains, and where the program has no handler of its own.
# The handler runs between any two lines of the main thread, which may hold a lock. Therefore it
# only wakes a thread, and this thread tells the driver.


_log = logging.getLogger("hvdlite")
# A driver that ends this process says so before it sends SIGTERM.
_OVER_SECONDS = 1.0
_present: Sigterm | None = None


class Sigterm:
    """Use as a context manager."""

    def __init__(self, member: Membership) -> None:
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
                ask(self._member, "SIGTERM")
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
