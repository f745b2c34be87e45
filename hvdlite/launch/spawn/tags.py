r"""Which rank has printed what, in an output where another launcher has mixed all ranks. Pure.

    Open MPI   `[1,0]<stdout>:text`, at the start of each line; version 4 again wherever a line goes on after a pause
    Hydra      `<our mark>0:text`, likewise
    srun       `0: text`, at the start of each line and of each piece of 1024 bytes

What stands at the start of a line without a tag was said by the launcher itself. Everything else comes out as the rank has
written it, with two exceptions that srun makes: its lines arrive when they are complete, and a last line that is not gets an end.
"""

from __future__ import annotations

from dataclasses import dataclass

# What the launcher itself says.
LAUNCHER = -1
# srun cuts longer lines into pieces of this size, and ends each of them.
_SLURM_PIECE = 1024
_MAX_DIGITS = 7


@dataclass(frozen=True)
class Tag:
    """`before`, a rank's number, `after`. `anywhere`: also within a line."""

    before: bytes
    after: bytes
    anywhere: bool = True
    padded: bool = False  # spaces may stand before it
    piece: int = 0  # a line of exactly so many bytes goes on in the next one

    def match(self, text: bytes) -> tuple[int, int] | None:
        """(rank, length) when `text` begins with a tag; (0, 0) when it is too short to tell; None when it does not."""
        start = len(text) - len(text.lstrip(b" ")) if self.padded else 0
        head = text[start : start + len(self.before)]
        if head != self.before:
            return (0, 0) if self.before.startswith(head) else None
        start += len(self.before)
        end = start
        while end < len(text) and text[end : end + 1].isdigit():
            end += 1
        if end - start > _MAX_DIGITS:
            return None
        if end == len(text):
            return 0, 0
        tail = text[end : end + len(self.after)]
        if end == start or not self.after.startswith(tail):
            return None
        return (int(text[start:end]), end + len(tail)) if tail == self.after else (0, 0)


def open_mpi(stream: str, prrte: bool) -> Tag:
    """`stream`: stdout | stderr."""
    return Tag(b"[1,", f"]<{stream}>:{' ' if prrte else ''}".encode())


def hydra(mark: str) -> Tag:
    return Tag(mark.encode(), b":")


SLURM = Tag(b"", b": ", anywhere=False, padded=True, piece=_SLURM_PIECE)


class Untangler:
    """Takes one stream of a launcher apart."""

    def __init__(self, tag: Tag) -> None:
        self._tag = tag
        self._rank = LAUNCHER
        self._line_start = True
        self._length = 0  # of the present line so far, its tag not counted
        self._held = b""  # may be the beginning of a tag
        self._found: list[tuple[int, bytes]] = []

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """What is now known to belong to whom, in order. What may be the beginning of a tag waits for the rest."""
        text = self._held + data
        self._held = b""
        position = 0
        while position < len(text):
            head = text[position : position + len(self._tag.before)]
            if self._line_start or (self._tag.anywhere and self._tag.before.startswith(head)):
                match = self._tag.match(text[position : position + 64])
                if match == (0, 0):
                    self._held = text[position:]
                    break
                if match is not None:
                    self._rank, length = match
                    position += length
                    self._line_start, self._length = False, 0 if self._line_start else self._length
                    continue
                if self._line_start:
                    self._rank, self._line_start, self._length = LAUNCHER, False, 0
                    continue
            position = self._take(text, position)
        found, self._found = self._found, []
        return found

    def flush(self) -> list[tuple[int, bytes]]:
        """What still waits, at the end: it was no tag."""
        held, self._held = self._held, b""
        if not held:
            return []
        if self._line_start:
            self._rank, self._line_start, self._length = LAUNCHER, False, 0
        self._length += len(held)
        return [(self._rank, held)]

    def _take(self, text: bytes, position: int) -> int:
        """The text up to the line's end, or to what may be a tag; returns where it ends."""
        newline = text.find(b"\n", position)
        end = len(text) if newline < 0 else newline + 1
        if self._tag.anywhere:
            # A tag that begins here was looked at already.
            tag = text.find(self._tag.before, position + 1, end)
            if tag < 0:
                tag = _beginning(self._tag.before, text, position + 1, end)
            if tag >= 0:
                self._found.append((self._rank, text[position:tag]))
                return tag
        line = text[position:end]
        self._length += len(line)
        self._line_start = line.endswith(b"\n")
        cut = self._tag.piece and self._length == self._tag.piece + 1
        if cut and self._line_start and self._rank != LAUNCHER:
            line = line[:-1]
        self._found.append((self._rank, line))
        return end


def _beginning(before: bytes, text: bytes, start: int, end: int) -> int:
    """Where the text's end may be the beginning of a tag's first part; -1: nowhere."""
    for length in range(min(len(before) - 1, end - start), 0, -1):
        if end == len(text) and text.endswith(before[:length]):
            return end - length
    return -1
