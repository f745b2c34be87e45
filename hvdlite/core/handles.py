"""Handles: operations in flight.

A handle is a number. The memory that its operation reads and writes is not held here but by the
native core, until the operation is done: a program may simply forget a handle.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from hvdlite import _core

__all__ = ["poll", "synchronize"]


class Pending:
    """What a handle needs to become a result: the native handles, and what to make of their
    results."""

    __slots__ = ("finish", "natives", "outcomes")

    def __init__(self, natives: list[int], finish: Callable[[list[Any]], Any]) -> None:
        self.natives = natives
        self.finish = finish
        # of those that are over, in their order: results, or exceptions
        self.outcomes: list[Any] = []


# Those of allreduces in place begin here. The core has the tensor, which is the result.
_IN_PLACE = 1 << 40

_pending: dict[int, Pending] = {}
_pending_lock = threading.Lock()
_next_handle = 0

# Which thread waits for a handle; another one waits until it has ended. A lock in each handle would
# be one more object for the garbage collector: 7 % of the instructions of a step.
_waiting: dict[int, int] = {}
_ended = threading.Condition()
_others = 0  # threads that wait for another one


def new_handle(pending: Pending) -> int:
    global _next_handle
    with _pending_lock:
        handle = _next_handle
        _next_handle += 1
        _pending[handle] = pending
    return handle


def poll(handle: int) -> bool:
    """True once synchronize(handle) would not block. ValueError for a handle that was synchronized
    already."""
    if handle is not None and handle >= _IN_PLACE:
        with contextlib.suppress(Exception):  # its end was seen, and it is no handle any more
            return _core.poll(handle - _IN_PLACE)
    pending = _pending.get(handle)
    if pending is None:
        raise ValueError(f"no operation has handle {handle}: each handle can be synchronized once")
    return is_over(pending)


def is_over(pending: Pending) -> bool:
    """Whether run_now() would not block."""
    return all(_core.poll(native) for native in pending.natives[len(pending.outcomes) :])


def synchronize(handle: int) -> Any:
    """Waits for an asynchronous operation and returns its result. None for a handle that was
    synchronized already: of several threads that wait for it, one gets the result."""
    if handle is not None and handle >= _IN_PLACE:
        return _core.end_in_place(handle)
    me = get_ident()
    while _waiting.setdefault(handle, me) != me:
        _wait_for_other(handle)
    try:
        pending = _pending.get(handle)
        if pending is None:
            return None
        _wait(pending)
        _pending.pop(handle, None)
        return _result(pending)
    finally:
        _waiting.pop(handle, None)
        if _others:
            with _ended:
                _ended.notify_all()


def _wait_for_other(handle: int) -> None:
    global _others
    with _ended:
        _others += 1  # before the look: who ends after it sees the number
        try:
            _ended.wait_for(lambda: handle not in _waiting)
        finally:
            _others -= 1


def run_now(pending: Pending) -> Any:
    """Waits for an operation that has no handle."""
    _wait(pending)
    return _result(pending)


def run_all(operations: Sequence[Pending]) -> list[Any]:
    """Waits for all of them, whatever becomes of some, then raises the first one's error."""
    results, error = [], None
    for pending in operations:
        try:
            results.append(run_now(pending))
        except Exception as failed:
            error = error or failed
    if error is not None:
        raise error
    return results


def _wait(pending: Pending) -> None:
    """Leaves the outcomes of all. An exception of a signal handler ends it before."""
    natives, outcomes = pending.natives, pending.outcomes
    outcome: Any
    for native in natives[len(outcomes) :]:
        try:
            outcome = _core.wait(native)
        except Exception as error:
            # a signal handler's exception; as Ctrl-C, it leaves the handle as it is
            if _is_under_way(native):
                raise
            outcome = error
        outcomes.append(outcome)


def _result(pending: Pending) -> Any:
    for outcome in pending.outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return pending.finish(pending.outcomes)


def _is_under_way(native: int) -> bool:
    try:
        _core.poll(native)
    except Exception:  # its end was seen, and it is no handle any more
        return False
    return True


def _forget_threads() -> None:
    """Those that waited when this process was forked are not in it."""
    global _ended, _others
    _waiting.clear()
    _ended, _others = threading.Condition(), 0


os.register_at_fork(after_in_child=_forget_threads)


def forget_all() -> None:
    """Called after shutdown: no operation is in flight, and older handles mean nothing."""
    with _pending_lock:
        _pending.clear()
    _core.give_back()
