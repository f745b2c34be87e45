"""Finds out where the user's program is. A thread answers when operations stall, for the stall
report.

The thread sleeps in the native core without the GIL. It costs nothing until it is asked.
"""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType

from hvdlite import _core

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_thread: threading.Thread | None = None


def place_of(frame: FrameType | None) -> str:
    """Returns `evaluate() train.py:88`: the innermost frame of the user's own code, or else the
    innermost of all."""
    innermost = frame
    while frame is not None:
        path = os.path.abspath(frame.f_code.co_filename)
        if (
            not path.startswith(_PACKAGE)
            and "site-packages" not in path
            and not path.startswith(sys.prefix + os.sep)
        ):
            break
        frame = frame.f_back
    shown = frame or innermost
    if shown is None:
        return "no Python code"
    code = shown.f_code
    function = "" if code.co_name == "<module>" else f"{code.co_name}() "
    return f"{function}{os.path.basename(code.co_filename)}:{shown.f_lineno}"


def _answer_questions() -> None:
    while (asked := _core.wait_question(60.0)) >= 0:
        if asked:
            frames = sys._current_frames()
            _core.answer(place_of(frames.get(threading.main_thread().ident or 0)))


def start() -> None:
    """Called by init()."""
    global _thread
    stop()
    _thread = threading.Thread(target=_answer_questions, name="hvdlite-where", daemon=True)
    _thread.start()


def stop() -> None:
    """Called when the job has ended; the thread has noticed that already. It must be gone before
    the interpreter ends."""
    global _thread
    if _thread is not None and _thread is not threading.current_thread():
        _thread.join(5.0)
    _thread = None
