"""Ctrl-C while the main thread waits for other ranks inside a framework's graph or compiled
program.

Python only notes a signal; its handler runs when the main thread comes back to Python, which it
does not while it waits. So Python is asked to write the signal's number into a pipe at once, and a
thread of ours reads it. If the main thread does not come back but sleeps, and a framework says that
it is stuck, the job ends: the wait fails, and the handler has its turn. Nothing less would do,
because the tensors are the framework's memory, and the engine works on it until the job has ended.
A program that waits in Python is not touched, nor is one that has a handler of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from hvdlite.core import engine
from hvdlite.job import basics

# Python's handler runs within microseconds unless the main thread is in native code.
_LOOK_EVERY = 0.05
# A main thread that has not run at all between so many looks waits for ever. JAX's looks for
# signals every tenth of a second.
_LOOKS = 4
# One that runs may compute, or wait by polling.
_LONGEST = 2.0

_signs: list[Callable[[str], bool]] = []
_ours = -1  # the descriptor that Python writes to
_theirs = -1  # the one that it wrote to before: an event loop's


def watch(is_stuck: Callable[[str], bool]) -> None:
    """From now on Ctrl-C ends the job when the main thread does not come back to Python and
    `is_stuck` is true, which is given the file that the main thread's innermost frame is in.

    Works when called in the main thread; may be called again if other code has installed its own
    handlers.
    """
    global _ours, _theirs
    if is_stuck not in _signs:
        _signs.append(is_stuck)
    if threading.current_thread() is not threading.main_thread():
        return
    if _ours < 0:
        pipe, _ours = os.pipe()
        os.set_blocking(_ours, False)
        # A child has the pipe, too, but its signals are not ours.
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        threading.Thread(target=_read, args=(pipe,), name="hvdlite-interrupts", daemon=True).start()
    before = signal.set_wakeup_fd(_ours, warn_on_full_buffer=False)
    if before != _ours:
        _theirs = before


def _read(pipe: int) -> None:
    while signals := os.read(pipe, 64):
        if _theirs >= 0:
            with contextlib.suppress(OSError):
                os.write(_theirs, signals)
        if (
            signal.SIGINT in signals
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            _end_if_stuck()


def _end_if_stuck() -> None:
    # What the main thread does next when it comes back to Python, at the same moments at which it
    # looks for signals.
    came_back = _came_back
    ctypes.pythonapi.Py_AddPendingCall(_on_return, None)
    since = time.monotonic()
    seen: list[tuple[str, str] | None] = []
    while True:
        time.sleep(_LOOK_EVERY)
        if _came_back != came_back or not basics.is_initialized():
            return
        seen = [*seen[-_LOOKS:], _how_the_main_thread_is()]
        asleep = (
            len(seen) > _LOOKS and len(set(seen)) == 1 and seen[0] is not None and seen[0][0] == "S"
        )
        if (asleep or time.monotonic() - since > _LONGEST) and _a_framework_waits():
            engine.abort("interrupted (Ctrl-C) inside a graph or a compiled program")
            return


def _a_framework_waits() -> bool:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    file = "" if frame is None else frame.f_code.co_filename
    return any(is_stuck(file) for is_stuck in _signs)


def _how_the_main_thread_is() -> tuple[str, str] | None:
    """Its state, and how long and how often it has run. None where the system does not tell."""
    task = f"/proc/self/task/{threading.main_thread().native_id}"
    try:
        with open(f"{task}/stat") as stat, open(f"{task}/schedstat") as schedule:
            return stat.read().rpartition(")")[2].split()[0], schedule.read()
    except OSError:
        return None


_came_back = 0


def _count(_: object) -> int:
    global _came_back
    _came_back += 1
    return 0


_on_return = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_count)
