"""The ranks as lines of a table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hvdlite.launch.monitor import board
from hvdlite.launch.monitor.board import Row

_BOLD, _YELLOW, _RED, _PLAIN = "\x1b[1m", "\x1b[33m", "\x1b[1;31m", "\x1b[0m"


@dataclass(frozen=True)
class Column:
    heading: str
    text: Callable[[Row], str]
    left: bool = False


RANK = Column("rank", lambda row: str(row.rank))
HOST = Column("host", lambda row: row.host, left=True)
STEPS = Column("steps/s", lambda row: board.rate(row.steps))
STEP_TIME = Column("step", lambda row: board.milliseconds(1 / row.steps if row.steps else None))
OPERATIONS = Column("operations/s", lambda row: board.rate(row.operations))
DATA = Column("data/s", lambda row: board.size(row.bytes))
WAITING = Column("waiting", lambda row: "-" if row.waiting is None else f"{row.waiting:.0%}")
LATE = Column("late", lambda row: board.milliseconds(row.late))
CPU = Column("CPU", lambda row: "-" if row.cores is None else f"{row.cores:.0%}")
MEMORY = Column("memory", lambda row: board.size(row.memory))
NOTE = Column("", lambda row: row.note, left=True)
LAST = Column("last collective", lambda row: row.last, left=True)

MONITOR = (RANK, HOST, STEPS, OPERATIONS, DATA, WAITING, LATE, NOTE, LAST)


def render(
    rows: Sequence[Row],
    width: int,
    most: int,
    colours: bool = True,
    columns: Sequence[Column] = MONITOR,
    order: Callable[[Row], float] = lambda row: row.rank,
) -> list[str]:
    """Returns the table as lines for a terminal of that width, with at most this many ranks. Those
    with a note are kept. `order`: the key by which ranks are sorted."""
    ordered = sorted(rows, key=order)
    kept = [row for row in ordered if row.note] + [row for row in ordered if not row.note]
    chosen = sorted(kept[: max(1, most)], key=order)
    texts = [
        [column.heading for column in columns],
        *([column.text(row) for column in columns] for row in chosen),
    ]
    widths = [max(map(len, cells)) for cells in zip(*texts, strict=True)]
    # If the table is too wide, the last column is cut: the names of collectives.
    spare = width - sum(widths) - 2 * (len(widths) - 1)
    widths[-1] = max(len(columns[-1].heading), widths[-1] + min(0, spare))
    styles = [_BOLD, *(_RED if row.silent else _YELLOW if row.straggler else "" for row in chosen)]
    lines = []
    for text, style in zip(texts, styles, strict=True):
        cells = map(_fitted, text, widths, (column.left for column in columns))
        line = "  ".join(cells)[:width].rstrip()
        lines.append(f"{style}{line}{_PLAIN}" if colours and style else line)
    if len(chosen) < len(rows):
        lines.append(f"... and {len(rows) - len(chosen)} more ranks")
    return lines


def _fitted(text: str, width: int, left: bool) -> str:
    """Cuts a text that is too long. The end of a name says most."""
    if len(text) > width:
        text = "…" + text[len(text) - width + 1 :]
    return text.ljust(width) if left else text.rjust(width)
