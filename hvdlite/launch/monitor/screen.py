"""Keeps a few lines at the bottom of a terminal while other output scrolls above them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from hvdlite.launch.output import Writer

_ERASE_BELOW = b"\x1b[J"
# A line of this length without an end counts as finished.
_LINE_BYTES = 4096
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f]")


class Screen(Writer):
    """A Writer to a terminal. Output scrolls. The lines of show() are drawn below it, and refresh()
    draws them again.

    An unfinished line, such as a progress bar, is drawn as the first of the fixed lines, cut to the
    width.
    """

    def __init__(self, descriptor: int) -> None:
        self._terminal = descriptor
        self._lines: list[str] = []
        self._drawn = 0  # how many lines are on the terminal now, with the cursor in the last
        self._unfinished = b""
        super().__init__(descriptor)

    @property
    def drawn(self) -> bool:
        """Whether the lines are on the terminal; output removes them."""
        return self._drawn > 0

    def size(self) -> tuple[int, int]:
        """Returns columns and rows."""
        try:
            columns, rows = os.get_terminal_size(self._terminal)
        except OSError:
            columns, rows = 0, 0
        return columns or 80, rows or 24

    def show(self, lines: Sequence[str]) -> None:
        """Shows these lines from now on; they must fit."""
        if self._drawn and self._lines == list(lines):
            return
        if not self._lines and self._unfinished:
            # it is on the terminal and becomes the first of the fixed lines
            super().put(b"\r" + _ERASE_BELOW)
        self._lines = list(lines)
        super().put(self._erased() + self._drawing())

    def refresh(self) -> None:
        if not self._drawn and self._lines:
            super().put(self._drawing())

    def put(self, data: bytes) -> None:
        if not self._lines:
            super().put(data)
            self._unfinished = _last_of((self._unfinished + data).rpartition(b"\n")[2])[
                -_LINE_BYTES:
            ]
            return
        text = self._unfinished + data
        end = text.rfind(b"\n") + 1
        self._unfinished = _last_of(text[end:])
        if len(self._unfinished) > _LINE_BYTES:
            end, text, self._unfinished = len(text) + 1, text + b"\n", b""
        super().put(self._erased() + text[:end])

    def end(self) -> None:
        """Removes the lines without a trace."""
        if self._lines:
            super().put(self._erased() + self._unfinished)
        self._lines = []

    def _erased(self) -> bytes:
        drawn, self._drawn = self._drawn, 0
        if not drawn:
            return b""
        up = b"\x1b[%dA" % (drawn - 1) if drawn > 1 else b""
        return b"\r" + up + _ERASE_BELOW

    def _drawing(self) -> bytes:
        columns, rows = self.size()
        lines = self._lines[: max(1, rows - 2)]
        if self._unfinished:
            text = _CONTROL.sub("", self._unfinished.decode(errors="replace"))
            lines = [text[: columns - 1], *lines]
        self._drawn = len(lines)
        return "\n".join(lines).encode()


def possible(environ: Mapping[str, str]) -> bool:
    """Whether stderr is a terminal that can move its cursor."""
    return os.isatty(2) and environ.get("TERM", "") not in ("", "dumb")


def progress(phases: Mapping[str, str], columns: int) -> list[str]:
    """Returns how far the hosts of a job are during the start: a line per phase that some host is
    in. `phases` by host."""
    shown = []
    for phase in dict.fromkeys(phases.values()):
        hosts = [host for host, its in phases.items() if its == phase]
        text = f"hvdliterun: {phase} ({len(hosts)} of {len(phases)}): {', '.join(hosts)}"
        shown.append(text if len(text) <= columns else text[: columns - 1] + "…")
    return shown


def _last_of(line: bytes) -> bytes:
    r"""Of `10%\r 20%\r 30%\r`, only the last state is visible."""
    return line[line.rstrip(b"\r").rfind(b"\r") + 1 :]
