"""Tells where the user's program is when operations stall. A thread answers for the verdict, hears
it, and writes this rank's part of the bundle if there is to be one.

The thread sleeps in the native core without the GIL. It costs nothing until it is asked.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from hvdlite import _core
from hvdlite.job import frames, observe

if TYPE_CHECKING:
    from hvdlite.base.bundle import Stack

# HVDLITE_ASKED_... of hvdlite.h
_FAILED, _WHERE, _VERDICT, _REPORT = -2, 1, 2, 3

# The end of a stalled job (csrc/engine/observe/stall_watch.cc), before the verdict.
_STALLED = "because operations stalled: "

_thread: threading.Thread | None = None
_writer: BundleWriter | None = None


def _answer_questions(writer: BundleWriter | None) -> None:
    seen: Snapshot | None = None
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


def start(writer: BundleWriter | None = None) -> None:
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


# ---- The bundle


class Snapshot(NamedTuple):
    """Where the program was when the rank was asked. The verdict comes later."""

    place: str
    stacks: list[Stack]


class BundleWriter(NamedTuple):
    """Writes this rank's part of a bundle (HVDLITE_STALL_DUMP), for `hvdlite explain`.

    What cannot be written costs one line of the log; the job goes on. `folder`: of this job's
    bundle; all its ranks know it.
    """

    folder: str
    rank: int
    size: int
    knobs: Mapping[str, Any] = MappingProxyType({})

    def write(self, event: str, verdict: str, seen: Snapshot) -> None:
        import datetime  # rarely needed
        import logging
        import socket

        from hvdlite.base import bundle, private_file

        log = logging.getLogger("hvdlite")
        part = bundle.BundlePart(
            event, verdict, self.rank, self.size, socket.gethostname(), os.getpid(),
            datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
            seen.place, seen.stacks, observe.recent_operations(), observe.metrics(),
            bundle.shown_environment(os.environ), dict(self.knobs), observe.versions(),
        )  # fmt: skip
        try:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            private_file.write(os.path.join(self.folder, part.file_name), part.encode())
        except OSError as error:
            log.warning(
                "This rank's part of the bundle cannot be written to %s: %s. The job goes on.",
                self.folder, error.strerror,
            )  # fmt: skip
            return
        if self.rank == 0 or event == "asked":
            log.warning(
                "A bundle of this job is in %s: `hvdlite explain %s` shows it.",
                self.folder, self.folder,
            )  # fmt: skip


def _look() -> Snapshot:
    """What the program does now."""
    return Snapshot(frames.of_main_thread().text, frames.stacks())


def bundle_name(place: tuple[tuple[str, int], bytes] | None, prefix: str) -> str:
    """A name that all ranks of this job know, and that no other job has. `place`: of the job's
    store; None: this process is alone. `prefix`: of the job's keys there, with the generation of an
    elastic job, whose ranks have other numbers in the next one."""
    if place is None:
        return f"pid{os.getpid()}"
    import hashlib  # loads OpenSSL

    (_, port), secret = place
    told = f"{port}{prefix}".encode()
    return hashlib.sha256(b"hvdlite bundle" + secret + told).hexdigest()[:12]
