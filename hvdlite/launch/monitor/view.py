"""`hvdliterun --monitor`: shows a table of the ranks at the bottom of a terminal, or prints a line
in a log from time to time.

Ranks put their reports into the job's store (`hvdlite/job/pulse.py`). The launcher's only thread
calls tick(), which reads and shows them. It draws so rarely that it takes at most 0.2 % of a core,
for any number of ranks. (A table by rich took 7 ms for 4 ranks and 127 ms for 64; this one takes
0.07 and 0.7 ms.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hvdlite.launch.monitor import board
from hvdlite.launch.monitor.board import Board, Row
from hvdlite.launch.monitor.screen import Screen
from hvdlite.launch.observers import JobObserver, JobStatus
from hvdlite.rendezvous.server import StoreServer

_READ_SECONDS = 1.0
_SHARE_OF_A_CORE = 0.002
# Printed output removes the table. It is drawn again this soon after the output.
_REDRAW_SECONDS = 0.1


# The table: hvdliterun --monitor and `hvdlite top` show it.
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


class Display:
    """How the board is shown."""

    seconds = 1.0  # time between two drawings

    def draw(self, now: float) -> None:
        """Shows the present state."""
        raise NotImplementedError

    def tick(self) -> float | None:
        """Called often. Returns the maximum seconds until the next call, if it matters."""
        return None

    def end(self) -> None:
        """The job has ended."""


class LinesDisplay(Display):
    """A display for logs."""

    seconds = 10.0

    def __init__(self, ranks: Board, say: Callable[[str], None]) -> None:
        self._board, self._say = ranks, say

    def draw(self, now: float) -> None:
        self._say(self._board.summary(now))


class TableDisplay(Display):
    """A display for terminals."""

    def __init__(self, ranks: Board, screen: Screen, colours: bool) -> None:
        self._board, self._screen, self._colours = ranks, screen, colours

    def draw(self, now: float) -> None:
        columns, rows = self._screen.size()
        taken = [each.sentence for each in self._board.taken(now)[:1]]
        above = [*([self._board.heading] if self._board.heading else []), *taken]
        heading = [line[: columns - 1] for line in above]
        most = rows - 4 - len(heading)
        table = render(self._board.rows(now), columns - 1, most, self._colours)
        self._screen.show([*heading, *table])

    def tick(self) -> float | None:
        if self._screen.drawn:
            return None
        self._screen.refresh()
        return _REDRAW_SECONDS

    def end(self) -> None:
        self._screen.end()


class Monitor(JobObserver):
    """Reads the reports and shows them."""

    def __init__(self, ranks: Board, *displays: Display) -> None:
        self._board = ranks
        now = time.monotonic()
        self._next_read = now + _READ_SECONDS
        self._next_draw = {display: now + display.seconds for display in displays}
        self._store: StoreServer | None = None
        self._status: Callable[[], JobStatus] | None = None

    def ask(self, status: Callable[[], JobStatus]) -> None:
        self._status = status

    def begin(self, store: StoreServer, secret: bytes) -> None:
        self._store = store

    def tick(self) -> float:
        now = time.monotonic()
        if now >= self._next_read:
            before = time.thread_time()
            self._read(now)
            for display, due in self._next_draw.items():
                if now >= due:
                    display.draw(now)
                    self._next_draw[display] = now + display.seconds
            self._next_read = now + max(
                _READ_SECONDS, (time.thread_time() - before) / _SHARE_OF_A_CORE
            )
        pauses = [self._next_read - now, *(display.tick() for display in self._next_draw)]
        return max(0.0, min(pause for pause in pauses if pause is not None))

    def _read(self, now: float) -> None:
        if self._status is not None:
            present = self._status()
            self._board.become(present.hosts, present.line)
        self._hear(now)

    def _hear(self, now: float) -> None:
        assert self._store is not None
        self._board.read(self._store.peek, now)

    def end(self) -> None:
        """May be called twice."""
        if self._store is not None:
            self._hear(time.monotonic())
            self._store = None
        for display in self._next_draw:
            display.end()
