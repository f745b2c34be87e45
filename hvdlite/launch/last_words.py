"""Finds the last words of a rank: the line that names its exception, if there is one."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Sequence

from hvdlite.base.untrusted import printable
from hvdlite.launch.one_line import NAMES_AN_ERROR
from hvdlite.launch.traces import raised_at

_MOST = 600  # bytes of a line that are kept
_LINES = 400  # lines that are kept

_NAMES_AN_ERROR = re.compile(NAMES_AN_ERROR.pattern.encode())
# hvdlite's own log, which repeats a message of the program or of another rank.
_LOG = re.compile(rb"\[(?:[\d :.-]+ )?hvdlite \d+/\d+\] \w+: ")
# A warning, as Python's `warnings` prints it; the line of the source follows.
_WARNING = re.compile(rb"(?:\S.*:\d+: )?[\w.]*Warning: ")
_TRACEBACK = b"Traceback (most recent call last)"


class LastWords:
    """Takes lines, and interprets them only on request, because ranks may print much."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=_LINES)

    def heard(self, lines: Sequence[bytes]) -> None:
        self._lines.extend(line[: _MOST + 1] for line in lines[-_LINES:])

    def found(self) -> tuple[bytes, bool]:
        """Returns the words, and whether they name an exception. They are the last line that names
        one. Otherwise they are the last line that is no warning, preferably one of the program's
        instead of hvdlite's log."""
        words, weight = b"", 0
        in_warning = False
        # The beginning of a long traceback is forgotten; its frames are not.
        in_traceback = len(self._lines) == _LINES and self._lines[0][:1].isspace()
        for line in self._lines:
            said = line.strip()
            if not said or ((in_traceback or in_warning) and line[:1].isspace()):
                continue
            if said.startswith(_TRACEBACK):
                in_traceback = True
                continue
            in_warning = not in_traceback and _WARNING.match(said) is not None
            if in_warning:
                continue
            # The exception follows the frames, whatever its name is.
            its_weight = 3 if in_traceback or _NAMES_AN_ERROR.match(said) else 2
            in_traceback = False
            if logged := _LOG.match(said):
                said, its_weight = said[logged.end() :], 1
            if its_weight >= weight:
                words, weight = said, its_weight
        return words if len(words) <= _MOST else words[:_MOST] + b" ...", weight == 3

    def with_place(self) -> bytes:
        """Returns the words, and where in the user's code the exception was raised that they
        name."""
        words, names_an_exception = self.found()
        place = raised_at(self._lines, os.getcwd()) if names_an_exception else b""
        return words + b" at " + place if place else words


def shown(words: bytes) -> str:
    """Returns the text without control of the terminal."""
    return printable(words.decode(errors="backslashreplace"))
