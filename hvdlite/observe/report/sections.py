"""What the sections of the page have in common. Pure."""

from __future__ import annotations

from hvdlite.observe.report.words import escaped


def section(title: str, note: str, content: str) -> str:
    """`note` is a text; `content` is HTML."""
    about = f'<p class="note">{escaped(note)}</p>' if note else ""
    return f"<section><h2>{escaped(title)}</h2>{about}{content}</section>"


def table(head: str, rows: str) -> str:
    """Rows of HTML. A table that is wider than the page scrolls."""
    return f'<div class="scroll"><table>{head}{rows}</table></div>'
