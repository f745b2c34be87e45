"""Finds the line that names an exception: in a rank's output, in a traceback, in an exception's
text. Pure."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Sequence

from hvdlite.base.untrusted import printable

_MOST = 600  # bytes of a line that are kept
_LINES = 400  # lines that are kept

# The beginning of a line that names an exception, in a traceback or in the text of another
# exception.
NAMES_AN_ERROR = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Fault|Abort)\b")
_NAMES_AN_ERROR = re.compile(NAMES_AN_ERROR.pattern.encode())
# hvdlite's own log, which repeats a message of the program or of another rank.
_LOG = re.compile(rb"\[(?:[\d :.-]+ )?hvdlite \d+/\d+\] \w+: ")
# A warning, as Python's `warnings` prints it; the line of the source follows.
_WARNING = re.compile(rb"(?:\S.*:\d+: )?[\w.]*Warning: ")
_TRACEBACK = b"Traceback (most recent call last)"
_FRAME = re.compile(rb'\s+File "(.+?)", line (\d+)(?:, in (.+))?$')
# Text without a file, Python itself, installed packages, and hvdlite where it is not installed.
_LIBRARY = re.compile(rb"^<|/lib/python3\.\d+/|/(?:site|dist)-packages/")
_HVDLITE = os.fsencode(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + b"/"


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


def in_one_line(error: BaseException, most: int = 500) -> str:
    """Returns the type, the first line of the text, and the exception that a later line names:
    torch's DataLoader puts a worker's traceback there, which ends with the cause."""
    kind = type(error).__name__
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except Exception:
        lines = []
    text = f"{kind}: {lines[0]}" if lines else kind
    named = [line for line in lines[1:] if NAMES_AN_ERROR.match(line)]
    if named:
        text += f" ... {named[-1]}"
    elif len(lines) > 1:
        text += " ..."
    text = printable(text)
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[5 - most // 2 :]}"


def raised_at(lines: Iterable[bytes], folder: str) -> bytes:
    """Returns `train.py:88 (load)`: the innermost frame of the user's code in the last traceback
    that has one, whose beginning may be missing; empty: there is none. Paths in `folder` are shown
    from there."""
    found = b""
    inside = True
    for line in lines:
        text = line.rstrip()
        if _TRACEBACK in text:
            inside = True
        elif not text[:1].isspace():
            inside = False
        elif inside and (frame := _FRAME.match(text)):
            path, number, function = frame.groups()
            if not _LIBRARY.search(path) and not path.startswith(_HVDLITE):
                found = _shown_path(path, folder) + b":" + number
                if function and function != b"<module>":
                    found += b" (" + function + b")"
    return found


def _shown_path(path: bytes, folder: str) -> bytes:
    inside = os.path.join(os.fsencode(folder), b"")
    return path[len(inside) :] if path.startswith(inside) else os.path.basename(path)
