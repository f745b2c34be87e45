"""Shortens an exception, or its text in a program's output, to one line, for other ranks and for
last lines."""

from __future__ import annotations

import re

from hvdlite.base.untrusted import printable

# The beginning of a line that names an exception, in a traceback or in the text of another
# exception.
NAMES_AN_ERROR = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Fault|Abort)\b")


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
