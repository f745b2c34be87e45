r"""Reads the output of another launcher, which mixes all ranks: which rank printed what, and which
rank failed. Pure.

    Open MPI   `[1,0]<stdout>:text`, at the start of each line; version 4 repeats the tag if a line
               continues after a pause
    Hydra      `<our mark>0:text`, likewise; `<our mark>1000000:3` if rank 0 exited with code 3
    srun       `0: text`, at the start of each line and of each piece of 1024 bytes

Text without a tag at the start of a line is the launcher's own. All other text comes out as the
rank has written it. srun makes two exceptions: its lines arrive when they are complete, and an
unfinished last line gets an end.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hvdlite.launch.spawn.other_launchers import MpiFamily

# The launcher's own messages.
LAUNCHER = -1
# srun cuts longer lines into pieces of this size, and ends each of them.
_SRUN_PIECE = 1024
_MAX_DIGITS = 7
_MAX_TAG = 64


@dataclass(frozen=True)
class Tag:
    """`before`, a rank's number, `after`."""

    before: bytes
    after: bytes
    anywhere: bool = True  # also within a line
    # the beginning of the launcher's own messages, also within a line that a rank has not ended
    speaks: bytes = b""
    padded: bool = False  # spaces may be in front of it
    twice: bool = False  # another tag may follow at once
    piece: int = 0  # a line of exactly this length continues in the next one

    def match(self, text: bytes) -> tuple[int, int] | None:
        """Returns (rank, length) if `text` begins with a tag; (0, 0) if it is too short to tell;
        None if it does not."""
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


def open_mpi_tag(stream: str, prrte: bool) -> Tag:
    """`stream`: stdout | stderr."""
    return Tag(b"[1,", f"]<{stream}>:{' ' if prrte else ''}".encode())


def hydra_tag(mark: str) -> Tag:
    return Tag(mark.encode(), b":", speaks=b"[mpiexec@", twice=True)


SRUN_TAG = Tag(b"", b": ", anywhere=False, padded=True, piece=_SRUN_PIECE)


class Untangler:
    """Separates one stream of a launcher by rank."""

    def __init__(self, tag: Tag) -> None:
        self._tag = tag
        self._rank = LAUNCHER
        self._line_start = True
        self._tagged = False  # the text up to here ends with a tag
        self._length = 0  # length of the present line so far, without its tag
        self._held = b""  # may be the beginning of a tag
        self._found: list[tuple[int, bytes]] = []

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Returns what is now known to belong to a rank, in order. Text that may be the beginning
        of a tag waits for the rest."""
        text = self._held + data
        self._held = b""
        position = 0
        while position < len(text):
            length = self._tag_at(text, position)
            if length is None:
                self._held = text[position:]
                break
            self._tagged = length > 0
            position += length
            if position < len(text) and not (self._tagged and self._tag.twice):
                position = self._take(text, position)
        found, self._found = self._found, []
        return found

    def _tag_at(self, text: bytes, position: int) -> int | None:
        """Returns the length of the tag here; 0 if there is none; None if the text is too short to
        tell."""
        head = text[position : position + _MAX_TAG]
        match = self._tag.match(head) if self._line_start or self._tag.anywhere else None
        speaks = b"" if self._tagged else self._tag.speaks
        if match == (0, 0) or (speaks and len(head) < len(speaks) and speaks.startswith(head)):
            return None
        if match is not None:
            self._begin(match[0])
            return match[1]
        if self._line_start or (speaks and head.startswith(speaks)):
            self._begin(LAUNCHER)
        return 0

    def _begin(self, rank: int) -> None:
        if self._line_start:
            self._length = 0
        self._rank, self._line_start = rank, False

    def flush(self) -> list[tuple[int, bytes]]:
        """Returns what still waits, at the end: it was no tag."""
        held, self._held = self._held, b""
        if not held:
            return []
        if self._line_start:
            self._begin(LAUNCHER)
        return [(self._rank, held)]

    def _take(self, text: bytes, position: int) -> int:
        """Takes the text up to the line's end, or up to what may be a tag; returns where it
        ends."""
        newline = text.find(b"\n", position)
        end = len(text) if newline < 0 else newline + 1
        # The beginning of this text was checked already.
        marks = [self._tag.before] if self._tag.anywhere else []
        marks += [self._tag.speaks] if self._tag.speaks else []
        begins = [at for mark in marks if (at := _find(mark, text, position + 1, end)) >= 0]
        if begins:
            self._found.append((self._rank, text[position : min(begins)]))
            return min(begins)
        line = text[position:end]
        self._length += len(line)
        self._line_start = line.endswith(b"\n")
        cut = self._tag.piece and self._length == self._tag.piece + 1
        if cut and self._line_start and self._rank != LAUNCHER:
            line = line[:-1]
        self._found.append((self._rank, line))
        return end


def _find(mark: bytes, text: bytes, start: int, end: int) -> int:
    """Returns where `mark` begins, or may begin at the very end of the text; -1: nowhere."""
    found = text.find(mark, start, end)
    if found < 0 and end == len(text):
        for length in range(min(len(mark) - 1, end - start), 0, -1):
            if text.endswith(mark[:length]):
                return end - length
    return found


# The signals by which launchers end the survivors.
_ENDED_BY_LAUNCHER = (signal.SIGKILL, signal.SIGTERM)


@dataclass(frozen=True)
class Cause:
    """A rank that ended badly. `rank` is None if the launcher does not name one."""

    rank: int | None
    host: str | None = None
    code: int = 0
    signal: int = 0


# A parser of a launcher's whole output.
CauseReader = Callable[[str], Sequence[Cause]]


def open_mpi_causes(words: str) -> list[Cause]:
    """Open MPI names the first failed rank."""
    text = " ".join(words.split())  # Open MPI breaks lines wherever they are full
    killed = re.search(
        r"process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+)", text
    )
    if killed:
        return [Cause(int(killed.group(1)), killed.group(2), signal=int(killed.group(3)))]
    exited = re.search(r"Process name: \[\S+,(\d+)\] Exit code: (\d+)", text)
    if exited:
        return [Cause(int(exited.group(1)), code=int(exited.group(2)))]
    return []


def hydra_causes(words: str, family: MpiFamily) -> list[Cause]:
    """Hydra lists how all ranks ended, on each host in the order of the ranks. It kills the
    survivors of a crash itself."""
    listed = re.search(r"Exit codes: ((?:\[[^\]]+\] [\d,]+\s*)+)", words)
    if not listed:
        return []
    failed: list[Cause] = []
    rank = 0
    for host, numbers in re.findall(r"\[([^\]]+)\] ([\d,]+)", listed.group(1)):
        for number in numbers.strip(",").split(","):
            code, killed = _decode(int(number), family)
            if code or killed:
                failed.append(Cause(rank, host.removesuffix(":0"), code, killed))
            rank += 1
    if len(failed) > 1:
        first = [cause for cause in failed if cause.signal not in _ENDED_BY_LAUNCHER]
        if not first:
            return [Cause(None, signal=failed[0].signal)]
        failed = first
    return failed


def cause_of_shell(rank: int, words: str) -> Cause | None:
    """What a rank's shell says (telling_shell): a number. None: it says nothing of the kind."""
    if not words.strip().isdecimal():
        return None
    code, killed = _decode(int(words), MpiFamily.INTEL)
    return Cause(rank, code=code, signal=killed)


def _decode(number: int, family: MpiFamily) -> tuple[int, int]:
    """Returns (code, signal). MPICH prints the status of wait(), Intel MPI that of a shell."""
    if family is MpiFamily.INTEL:
        return (0, number - 128) if 128 < number < 128 + signal.NSIG else (number, 0)
    return number >> 8, number & 0x7F


# The words of strsignal(), as srun prints them.
_SIGNALS = {signal.strsignal(number): int(number) for number in signal.valid_signals()}


def srun_causes(words: str) -> list[Cause]:
    """srun reports each task, or several at once, until it ends the others."""
    found: list[Cause] = []
    for line in words.splitlines():
        if "Terminating StepId=" in line or "Force Terminated" in line:
            break
        match = re.match(r"srun: error: (\S+): tasks? (\d+)[\d,-]*: (.+)", line)
        if not match:
            continue
        host, rank, how = match.group(1), int(match.group(2)), match.group(3)
        exited = re.match(r"Exited with exit code (\d+)", how)
        killed = _SIGNALS.get(how.removesuffix(" (core dumped)"), 0)
        if exited:
            found.append(Cause(rank, host, code=int(exited.group(1))))
        elif killed:
            found.append(Cause(rank, host, signal=killed))
    return found
