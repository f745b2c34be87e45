"""Tells where the user's program is when operations stall. A thread answers for the verdict, hears
it, and writes this rank's part of the bundle if there is to be one.

The thread sleeps in the native core without the GIL. It costs nothing until it is asked.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from hvdlite import _core
from hvdlite.job import frames

if TYPE_CHECKING:
    from hvdlite.job import bundle

# HVDLITE_ASKED_... of hvdlite.h
_FAILED, _WHERE, _VERDICT, _REPORT = -2, 1, 2, 3

# The end of a stalled job (csrc/engine/observe/stall_watch.cc), before the verdict.
_STALLED = "because operations stalled: "

_thread: threading.Thread | None = None
_writer: bundle.Writer | None = None


def _answer_questions(writer: bundle.Writer | None) -> None:
    seen: bundle.Seen | None = None
    asked, why = 0, ""
    while asked >= 0:
        asked, why = _core.wait_question(60.0)
        if asked == _WHERE:
            place = frames.of_main_thread()
            _core.answer(place.text, place.in_hvdlite)
            seen = None if writer is None else _look()
        elif asked == _VERDICT and writer is not None and seen is not None:
            writer.write("stall", _core.describe("verdict"), seen)
            seen = None
        elif asked == _REPORT:
            report()
        elif asked < 0 and writer is not None and _STALLED in why and seen is not None:
            # The news of the end has come before that of the verdict.
            writer.write("stall", why.partition(_STALLED)[2], seen)
        elif asked == _FAILED and writer is not None:
            writer.write("failure", why, _look())


def _look() -> bundle.Seen:
    from hvdlite.job import bundle

    return bundle.look()


def report() -> None:
    """A user has asked, by SIGQUIT or `hvdlite top`. May be called from any thread."""
    if _writer is not None:
        _writer.write("asked", "", _look())
        return
    text = "".join(
        f"Thread {stack.name}:\n" + "".join(f"{line}\n" for line in stack.lines)
        for stack in frames.stacks()
    )
    with contextlib.suppress(OSError, ValueError):  # stderr is closed
        os.write(2, text.encode(errors="backslashreplace"))


def start(writer: bundle.Writer | None = None) -> None:
    """Called by init()."""
    global _thread, _writer
    stop()
    _writer = writer
    _core.obey_sigquit()
    _thread = threading.Thread(
        target=_answer_questions, args=(writer,), name="hvdlite-where", daemon=True
    )
    _thread.start()


def stop() -> None:
    """Called when the job has ended; the thread has noticed that already. It must be gone before
    the interpreter ends."""
    global _thread
    if _thread is not None and _thread is not threading.current_thread():
        _thread.join(5.0)
    _thread = None
