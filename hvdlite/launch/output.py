r"""Turns the ranks' output into the launcher's, line by line: `[1]<stdout>:text`.

    rank's pipe ──► Stream: cut into lines ──► Sink: prefix, one line at a time ──┐
                       │                          stdout ◄── Writer (thread) ◄────┘
                       └──► copy in D/rank.1/stdout, byte for byte

Nothing is decoded: bytes come out as they went in, and a stream keeps their order. A line ends with
`\n`, `\r\n` or `\r` (progress bars). A terminal gets these ends; elsewhere `Bars` makes lines of
some states. An unfinished line is shown after a moment. If another rank prints in between, the rest
of it starts a new line.

The reader may be slow (a pager, a stopped terminal). Up to BACKLOG_BYTES wait in memory. Beyond
that, ranks wait as they would for any slow reader. If not one byte has been taken for
PATIENCE_SECONDS, text is dropped and counted, because a forgotten pager must not stop a training
run. When the reader has gone, the rest is discarded. The copies in files are always complete.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from hvdlite.launch.last_words import LastWords

if TYPE_CHECKING:
    from hvdlite.launch.collapse import Collapse

BACKLOG_BYTES = 16 << 20
PATIENCE_SECONDS = 10.0
IDLE_SECONDS = 0.2
# A longer line is passed on in parts.
LINE_BYTES = 1 << 20
# What a pipe takes at once. A write that ends shows that the reader is alive.
_WRITE_BYTES = 4096

_LINE_END = re.compile(rb"\r\n|\n|\r(?=[^\n])")


def drain(read: Callable[[], bool]) -> None:
    """Calls `read` while it returns True, but at most 64 times: a process that was left behind may
    write without end."""
    for _ in range(64):
        if not read():
            return


class LineCutter:
    """Cuts a stream into lines. Pure."""

    def __init__(self) -> None:
        self.pending = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the lines that are now complete, each with its end."""
        text = self.pending + data
        end = 0
        lines: list[bytes] = []
        # No byte before the last one of the old text can end a line.
        for match in _LINE_END.finditer(text, max(0, len(self.pending) - 1)):
            lines.append(text[end : match.end()])
            end = match.end()
        self.pending = text[end:]
        # A `\r` at the very end may be half of `\r\n`, so it waits for the next byte, or for
        # flush().
        if len(self.pending) > LINE_BYTES:
            lines.append(self.flush())
        return lines

    def flush(self) -> bytes:
        """Returns the unfinished last line."""
        pending, self.pending = self.pending, b""
        return pending


# As often as --monitor writes a line without a terminal.
BAR_SECONDS = 10.0


class Bars:
    r"""Turns the progress bars of one stream into lines of a file: from time to time one state of
    `10%\r20%\r30%\r`. A state is the text before a carriage return; the text behind it replaces
    the state, as on a terminal. Pure: times are arguments."""

    def __init__(self) -> None:
        self.drawing = False  # the next text replaces the state
        self._state = b""  # the newest state that was not shown
        self._shown = b""
        self._due = float("-inf")  # when the next state may be shown

    def thin(self, lines: Sequence[bytes], now: float) -> list[bytes]:
        """Returns the lines to show now, each with its end."""
        shown: list[bytes] = []
        for line in lines:
            if line.endswith(b"\r"):
                self.drawing = True
                self._state = line[:-1] or self._state
                continue
            if self.drawing and not line.strip():
                shown += self.rest()
            elif line and not (self.drawing and line.rstrip() == self._shown.rstrip()):
                shown.append(line)
            if line:
                self.drawing, self._state, self._shown = False, b"", b""
        return shown + self.tick(now)

    def tick(self, now: float, unfinished: bytes = b"") -> list[bytes]:
        """Returns the newest state, if it is time for one. `unfinished`: the text behind the last
        carriage return."""
        self._state = unfinished or self._state
        if not self.drawing or now < self._due:
            return []
        return self._show(now)

    def rest(self) -> list[bytes]:
        """Returns what has to be shown at the end."""
        return self._show(self._due)

    def wait(self, now: float) -> float | None:
        """Returns the seconds until tick() has something to show, if it will have."""
        return (
            max(0.0, self._due - now)
            if self.drawing and self._state not in (b"", self._shown)
            else None
        )

    def _show(self, now: float) -> list[bytes]:
        state, self._state = self._state, b""
        if not state.strip() or state == self._shown:
            return []
        self._shown, self._due = state, max(self._due, now + BAR_SECONDS)
        return [state + b"\n"]


class Writer:
    """Writes to a descriptor from a thread of its own, so that put() never waits. Thread-safe."""

    def __init__(self, descriptor: int) -> None:
        self.failure: Exception | None = None  # why nothing can be written any more
        self._descriptor = descriptor
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._backlog = 0
        self._progress = time.monotonic()
        self._gone = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="hvd-output", daemon=True)
        self._thread.start()

    @property
    def backlog(self) -> int:
        """Returns how many bytes wait."""
        return self._backlog

    def stuck(self, now: float) -> float:
        """Returns for how many seconds the reader has not taken a byte."""
        return now - self._progress if self._backlog else 0.0

    def put(self, data: bytes) -> None:
        with self._changed:
            if self._gone or not data:
                return
            if not self._backlog:
                self._progress = time.monotonic()
            self._queue.append(data)
            self._backlog += len(data)
            self._changed.notify_all()

    def wait_flushed(self, seconds: float) -> bool:
        """Waits until all is written. Returns False if it is not by then."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._backlog, seconds)

    def close(self) -> None:
        """Ends the thread when it has written all text."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _write(self, data: memoryview) -> int:
        """Like os.write; raises an exception if the reader has gone."""
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:  # another process made our terminal or pipe nonblocking
                select.select([], [self._descriptor], [])

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._queue) or self._closed)
                if not self._queue:
                    return
                data = self._queue.popleft()
            view = memoryview(data)
            while view:
                try:
                    written = self._write(view[:_WRITE_BYTES])
                # any exception: a program's own `sys.stdout` may raise anything
                except Exception as error:
                    with self._changed:
                        self.failure = error
                        self._gone = True
                        self._queue.clear()
                        self._backlog = 0
                        self._changed.notify_all()
                    return
                view = view[written:]
                with self._changed:
                    self._backlog -= written
                    self._progress = time.monotonic()
                    if not self._backlog:
                        self._changed.notify_all()


class TextWriter(Writer):
    """Writes to a text stream. The `sys.stdout` of a notebook or of a test is not descriptor 1."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        super().__init__(-1)

    def _write(self, data: memoryview) -> int:
        text = self._decoder.decode(data)
        self._stream.write(text.encode(self._encoding, "backslashreplace").decode(self._encoding))
        if len(data) == self.backlog:  # no text waits any more
            self._stream.flush()
        return len(data)


class Sink:
    """One of the launcher's own streams, shared by the same stream of all ranks. One thread at a
    time. `obeys_returns`: a carriage return moves the reader to the beginning of the line, as on a
    terminal."""

    def __init__(
        self, writer: Writer, timestamps: bool = False, obeys_returns: bool = True
    ) -> None:
        self.obeys_returns = obeys_returns
        self._writer = writer
        self._timestamps = timestamps
        self._open: bytes | None = None  # the prefix of the stream whose line is unfinished
        self._dropping = False
        self._dropped = 0

    def accepts(self, now: float) -> bool:
        """Whether ranks' output should be read now; otherwise the ranks wait."""
        if self._writer.backlog <= BACKLOG_BYTES // 2:
            self._dropping = False
            if self._dropped:
                self._notice()
        elif self._writer.stuck(now) > PATIENCE_SECONDS:
            self._dropping = True
        return self._dropping or self._writer.backlog < BACKLOG_BYTES

    def emit(self, prefix: bytes, lines: list[bytes]) -> None:
        """Prints parts of one stream; only the last may be unfinished."""
        if self._dropping:
            self._dropped += len(lines)
            return
        start = f"{time.asctime()}".encode() + prefix if self._timestamps else prefix
        pieces: list[bytes] = []
        for line in lines:
            if not line or (line == b"\r" and self._open != prefix):  # the line begins there anyway
                continue
            if self._open != prefix:
                pieces.append(start if self._open is None else b"\n" + start)
            pieces.append(line)
            self._open = None if line.endswith((b"\n", b"\r")) else prefix
        self._writer.put(b"".join(pieces))

    def say(self, text: str) -> None:
        """Prints a line of the launcher itself."""
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        self._writer.put(line if self._open is None else b"\n" + line)
        self._open = None

    def wait_flushed(self, seconds: float) -> bool:
        if self._dropped and not self._dropping:
            self._notice()
        return self._writer.wait_flushed(seconds)

    def _notice(self) -> None:
        count, self._dropped = self._dropped, 0
        self.say(
            f"hvdliterun: {count} lines are missing here: the reader took none for "
            f"{PATIENCE_SECONDS:g} s."
        )


@dataclass
class Stream:
    """One stream of one rank."""

    rank: int
    name: str  # stdout | stderr
    sink: Sink
    copy: int | None = None  # the file's descriptor
    merger: Collapse | None = None
    source: int | None = None  # what `merger` knows it by, if not by its rank
    last_words: LastWords = field(default_factory=LastWords)
    _lines: LineCutter = field(default_factory=LineCutter)
    _bars: Bars = field(default_factory=Bars)
    _fed: float = 0.0

    @property
    def prefix(self) -> bytes:
        return f"[{self.rank}]<{self.name}>:".encode()

    @property
    def _known_as(self) -> int:
        return self.rank if self.source is None else self.source

    def feed(self, data: bytes, now: float) -> None:
        self._fed = now
        self._save(data)
        returns = b"\r" in data or self._lines.pending.endswith(b"\r")
        self._emit(self._lines.feed(data), returns)

    def tick(self, now: float) -> None:
        """Shows an unfinished line that has waited long enough, or a progress bar."""
        is_old = now - self._fed >= IDLE_SECONDS
        if self._bars.drawing:
            self._pass_on(self._bars.tick(now, self._lines.pending if is_old else b""), now)
        elif self._lines.pending and is_old:
            self._emit([self._lines.flush()])
        if self.merger is not None:
            self.merger.tick(now)

    def wait(self, now: float) -> float | None:
        """Returns the seconds until tick() has something to do."""
        waits = [self.merger.wait(now) if self.merger is not None else None]
        if self._bars.drawing:
            waits.append(self._bars.wait(now))
        if self._lines.pending and not (self._bars.drawing and now - self._fed >= IDLE_SECONDS):
            waits.append(IDLE_SECONDS)
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def end(self) -> None:
        self._emit([self._lines.flush()])
        self._pass_on(self._bars.rest(), self._fed)
        if self.merger is not None:
            self.merger.end(self._known_as)
        if self.copy is not None:
            os.close(self.copy)
            self.copy = None

    def _emit(self, lines: list[bytes], returns: bool = True) -> None:
        """`returns`: there may be a carriage return in the text."""
        if self.name == "stderr":  # last words are those of stderr
            self.last_words.heard(lines)
        if not self.sink.obeys_returns and (returns or self._bars.drawing):
            lines = self._bars.thin(lines, self._fed)
        self._pass_on(lines, self._fed)

    def _pass_on(self, lines: list[bytes], now: float) -> None:
        if self.merger is not None:
            self.merger.put(self._known_as, lines, now)
        else:
            self.sink.emit(self.prefix, lines)

    def _save(self, data: bytes) -> None:
        if self.copy is None:
            return
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self.copy, view) :]
        except OSError as error:
            os.close(self.copy)
            self.copy = None
            reason = error.strerror
            self.sink.say(
                f"hvdliterun: the copy of rank {self.rank}'s {self.name} ends here: {reason}."
            )


def open_copy(directory: str, rank: int, size: int, name: str) -> int:
    """Opens the file D/rank.<padded>/stdout for a rank, empty."""
    folder = os.path.join(directory, f"rank.{rank:0{len(str(size - 1))}d}")
    os.makedirs(folder, exist_ok=True)
    return os.open(
        os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666
    )
