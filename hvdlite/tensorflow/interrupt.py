"""Ctrl-C while a graph runs.

The main thread is then inside TensorFlow and waits for peers, where Python's handler cannot reach it. So Python is asked to
write the signal's number into a pipe at once; a thread of ours that reads it looks whether the main thread moves, and if it
does not, ends the job: the graph fails, and the handler has its turn. A program that waits in Python is not touched, nor
is one that has a handler of its own.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from hvdlite import basics
from hvdlite.adapter import engine

# Python's handler runs within microseconds unless the main thread is in native code.
_PATIENCE = 0.1
_watching = False


def watch() -> None:
    """From now on. Only where Python lets us: in the main thread, and where nobody else has asked for the same."""
    global _watching
    if _watching or threading.current_thread() is not threading.main_thread():
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    others = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    if others != -1:  # an event loop's
        signal.set_wakeup_fd(others)
        os.close(read)
        os.close(write)
        return
    _watching = True
    # A child has the pipe, too, but its signals are not ours.
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    threading.Thread(target=_look, args=(read,), name="hvdlite-interrupt", daemon=True).start()


def _look(pipe: int) -> None:
    while signals := os.read(pipe, 64):
        if signal.SIGINT not in signals or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            continue
        before = _place_of_main_thread()
        time.sleep(_PATIENCE)
        if "tensorflow" in before[1] and before == _place_of_main_thread() and basics.is_initialized():
            engine.abort("interrupted (Ctrl-C) while a graph of TensorFlow was running")


def _place_of_main_thread() -> tuple[int, str, int]:
    """A frame, its file, and the instruction it has come to."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return (0, "", 0) if frame is None else (id(frame), frame.f_code.co_filename, frame.f_lasti)
