"""Finds where an exception was raised in the text of tracebacks. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_BEGINS = b"Traceback (most recent call last)"
_FRAME = re.compile(rb'\s+File "(.+?)", line (\d+)(?:, in (.+))?$')
# Text without a file, Python itself, installed packages, and hvdlite where it is not installed.
_LIBRARY = re.compile(rb"^<|/lib/python3\.\d+/|/(?:site|dist)-packages/")
_HVDLITE = os.fsencode(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + b"/"


def raised_at(lines: Iterable[bytes], folder: str) -> bytes:
    """Returns `train.py:88 (load)`: the innermost frame of the user's code in the last traceback
    that has one, whose beginning may be missing; empty: there is none. Paths in `folder` are shown
    from there."""
    found = b""
    inside = True
    for line in lines:
        text = line.rstrip()
        if _BEGINS in text:
            inside = True
        elif not text[:1].isspace():
            inside = False
        elif inside and (frame := _FRAME.match(text)):
            path, number, function = frame.groups()
            if not _LIBRARY.search(path) and not path.startswith(_HVDLITE):
                found = _shown(path, folder) + b":" + number
                if function and function != b"<module>":
                    found += b" (" + function + b")"
    return found


def _shown(path: bytes, folder: str) -> bytes:
    inside = os.path.join(os.fsencode(folder), b"")
    return path[len(inside) :] if path.startswith(inside) else os.path.basename(path)
