"""Handles: operations in flight.

A handle is a number. The memory that its operation reads and writes is not held here but by the
native core, until the operation is done: a program may simply forget a handle.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hvdlite import _core

__all__ = ["poll", "synchronize"]


class Pending:
    """What a handle needs to become a result: the native handles, and what to make of their
    results."""

    __slots__ = ("finish", "lock", "natives", "outcomes")

    def __init__(self, natives: list[int], finish: Callable[[list[Any]], Any]) -> None:
        self.natives = natives
        self.finish = finish
        # of those that are over, in their order: results, or exceptions
        self.outcomes: list[Any] = []
        # of the thread that waits for the handle; a signal handler may wait for it, too
        self.lock: threading.RLock | None = None


_pending: dict[int, Pending] = {}
_pending_lock = threading.Lock()
_next_handle = 0


def new_handle(pending: Pending) -> int:
    global _next_handle
    pending.lock = threading.RLock()
    with _pending_lock:
        handle = _next_handle
        _next_handle += 1
        _pending[handle] = pending
    return handle


def poll(handle: int) -> bool:
    """True once synchronize(handle) would not block. ValueError for a handle that was synchronized
    already."""
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
    pending = _pending.get(handle)
    if pending is None or pending.lock is None:
        return None
    with pending.lock:
        if handle not in _pending:
            return None
        return _complete(pending, lambda: _pending.pop(handle, None))


def run_now(pending: Pending) -> Any:
    """Waits for an operation that has no handle."""
    return _complete(pending, lambda: None)


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


def _complete(pending: Pending, forget: Callable[[], Any]) -> Any:
    natives, outcomes = pending.natives, pending.outcomes
    outcome: Any
    while len(outcomes) < len(natives):
        native = natives[len(outcomes)]
        try:
            outcome = _core.wait(native)
        except Exception as error:
            # a signal handler's exception; as Ctrl-C, it leaves the handle as it is
            if _is_under_way(native):
                raise
            outcome = error
        outcomes.append(outcome)
    forget()
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return pending.finish(outcomes)


def _is_under_way(native: int) -> bool:
    try:
        _core.poll(native)
    except Exception:  # its end was seen, and it is no handle any more
        return False
    return True


def _renew_locks() -> None:
    """Another thread may have held one when this process was forked."""
    for pending in _pending.values():
        pending.lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)


def forget_all() -> None:
    """Called after shutdown: no operation is in flight, and older handles mean nothing."""
    with _pending_lock:
        _pending.clear()
    _core.give_back()
