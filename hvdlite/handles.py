"""Handles: operations under way.

A handle is a number. Until it is done the memory it reads and writes must stay: the table below holds it, whatever the
caller does (an exception in synchronize() does not take it away).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hvdlite import _core

__all__ = ["poll", "synchronize"]


class Pending:
    """What a handle needs to become a result: the native handles, the memory, and how to hand it back."""

    __slots__ = ("finish", "keep", "natives")

    def __init__(self, natives: list[int], keep: Any, finish: Callable[[list[Any]], Any]) -> None:
        self.natives = natives
        self.keep = keep
        self.finish = finish


_pending: dict[int, Pending] = {}
_pending_lock = threading.Lock()
_next_handle = 0


def new_handle(pending: Pending) -> int:
    global _next_handle
    with _pending_lock:
        handle = _next_handle
        _next_handle += 1
        _pending[handle] = pending
    return handle


def poll(handle: int) -> bool:
    """True once synchronize(handle) would not block. ValueError for a handle that was synchronized already."""
    pending = _pending.get(handle)
    if pending is None:
        raise ValueError(f"Handle {handle} was not created or has been cleared.")
    return all(_core.poll(native) for native in pending.natives)


def synchronize(handle: int) -> Any:
    """Waits for an asynchronous operation and returns its result. None for a handle that was synchronized already."""
    pending = _pending.get(handle)
    if pending is None:
        return None
    return complete(pending, lambda: _pending.pop(handle, None))


def complete(pending: Pending, forget: Callable[[], Any]) -> Any:
    results = []
    error: Exception | None = None
    while pending.natives:
        native = pending.natives[0]
        try:
            results.append(_core.wait(native))
        except Exception as failed:  # KeyboardInterrupt passes: the operation is still under way, and so is the handle
            error = error or failed
        pending.natives.pop(0)
    forget()
    if error is not None:
        raise error
    return pending.finish(results)


def run_now(pending: Pending) -> Any:
    """Waits for an operation that has no handle. Should Ctrl-C end the wait, it gets one, so that its memory stays."""
    try:
        return complete(pending, lambda: None)
    except BaseException:
        if pending.natives:
            new_handle(pending)
        raise


def forget_all() -> None:
    """After shutdown: nothing is under way any more, and handles from before mean nothing."""
    with _pending_lock:
        _pending.clear()
    _core.give_back()
