"""An exception, or what is left of one in a program's output, in one line: for other ranks and for last lines."""

from __future__ import annotations

import re

# What a line begins with that names an exception, in a traceback or in the text of another exception.
NAMES_AN_ERROR = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Fault|Abort)\b")


def in_one_line(error: BaseException, most: int = 500) -> str:
    """Its type, the first line of its text, and the exception that a later line names: torch's DataLoader puts a worker's
    traceback there, whose end is the cause."""
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


def printable(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
