"""`hvdliterun --report`: keeps what the page of `hvdlite report` shows, and writes the page.

The page is written at the beginning, so that a bad path is told at once, every minute, and at the
end of the job. What cannot be written is told in one line, once, and the job goes on.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence

from hvdlite.base import private_file
from hvdlite.launch.monitor import exposition
from hvdlite.launch.monitor.board import Board
from hvdlite.launch.monitor.view import Display
from hvdlite.launch.observers import JobObserver
from hvdlite.observe.report import words
from hvdlite.observe.report.facts import JobEnd
from hvdlite.observe.report.history import History
from hvdlite.observe.report.page import page
from hvdlite.rendezvous.server import StoreServer

_SECONDS_OF_A_SAMPLE = 1.0
_SECONDS_OF_A_PAGE = 60.0
# With very many ranks, pages are written less often.
_SHARE_OF_A_CORE = 0.001


class ReportFile:
    """The job's history, and its page at `path`."""

    def __init__(self, path: str, command: Sequence[str], say: Callable[[str], None]) -> None:
        self.history = History()
        self.began = time.time()
        self._path, self._say = path, say
        self._title = words.command(command)
        self._told = False
        self._page: tuple[int, int] | None = None  # by which its own page is known
        self._told_of_others = False

    def write(self, end: JobEnd | None = None) -> None:
        """`end`: None while the job runs."""
        now = time.time()
        try:
            facts = self.history.facts(self._title, end, running=end is None, ended=now)
            there = _state(self._path)
            if self._page and there and there != self._page and not self._told_of_others:
                self._told_of_others = True
                self._say(
                    f"another job writes {self._path}, too: give each --report a file of its own."
                )
            private_file.write_as_asked(self._path, page(facts, now).encode())
            self._page = _state(self._path)
        except OSError as error:
            self._complain(f"cannot write {self._path}: {error.strerror or error}")
        except Exception as error:  # a fault of the page must not end the job
            self._complain(f"{type(error).__name__}: {error}")

    def add(self, board: Board, now: float) -> None:
        try:
            self.history.add(exposition.record(board, now, time.time(), self.began))
        except (ValueError, KeyError, TypeError) as error:
            self._complain(f"a rank's report cannot be read: {error}")

    def _complain(self, why: str) -> None:
        if not self._told:
            self._told = True
            self._say(f"there is no report, or an old one: {why.removesuffix('.')}.")


def _state(path: str) -> tuple[int, int] | None:
    """Returns what differs when another program has replaced the file; None: there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


class ReportSampler(Display):
    """A display: what it draws is the report."""

    seconds = _SECONDS_OF_A_SAMPLE

    def __init__(self, board: Board, report: ReportFile) -> None:
        self._board, self._report = board, report
        self._next_page = time.monotonic() + _SECONDS_OF_A_PAGE

    def draw(self, now: float) -> None:
        self._report.add(self._board, now)

    def tick(self) -> float | None:
        now = time.monotonic()
        if now >= self._next_page:
            before = time.thread_time()
            self._report.write()
            spent = (time.thread_time() - before) / _SHARE_OF_A_CORE
            self._next_page = now + max(_SECONDS_OF_A_PAGE, spent)
        return None

    def end(self) -> None:
        self._report.add(self._board, time.monotonic())


class ReportWriter(JobObserver):
    """The first page, and the last one."""

    def __init__(self, report: ReportFile) -> None:
        self._report = report
        self._begun = False

    def begin(self, store: StoreServer, secret: bytes) -> None:
        self._begun = True
        self._report.write()

    def told(self, text: str) -> None:
        self._report.history.happened(time.time(), text)

    def judged(self, status: int, sentence: str) -> None:
        if not self._begun:
            return
        if status:
            said = sentence.removeprefix("hvdliterun: ") or f"The job failed with {status}."
            self._report.history.happened(time.time(), said)
        self._report.write(JobEnd(status, sentence))
