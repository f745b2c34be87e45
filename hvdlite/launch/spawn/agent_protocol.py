"""The protocol between the launcher and the agent on another host. Pure.

The launcher writes to the agent's standard input: an Order as `<length>\\n<JSON>`, and then single
letters: `S` start, and those of the guardian. In an elastic job `A` asks for the event `alive`, and
`L` for an event `stopped` of each rank that is stopped. There, ranks come and go one by one. An
order about one of them is a letter and `<length>\\n<JSON>`:

    P   start it:  {"rank": 3, "environment": {...}}
    E   end it:    {"rank": 3, "politely": true}

The agent writes to its standard output. The first line is a mark, because a login shell may have
printed something before. Then frames follow:

    kind (1 byte)   rank (4)   length (4, both big-endian)   payload

    r   ready: the payload is the address at which the ranks will reach the store
    x   the host cannot take part: a sentence, the last frame
    e   an event, as events.line() writes it
    1   output of a rank on its standard output; empty: the stream has ended
    2   the same for standard error
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MARK = b"\n\0hvdlite agent 1\n"
READY, REFUSED, EVENT, STDOUT, STDERR = b"r", b"x", b"e", b"1", b"2"
START = b"S"
ASK, LOOK = b"A", b"L"
_START_ONE, _END_ONE = b"P", b"E"

_HEADER = struct.Struct(">cII")
_MOST_NOISE = 1 << 16
# The agent never puts more into one frame.
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class AgentOrder:
    secret: str = field(repr=False)  # the job's, in hex digits
    port: int  # of the store
    # of the launcher's machine; the agent finds out which of them leads there
    addresses: Sequence[str]
    addresses_chosen: bool  # the user's choice: no other is tried
    patience: float  # seconds for this search
    directory: str  # where the ranks run, if it exists
    command: Sequence[str]
    environment: Mapping[str, str]  # for all ranks
    # the ranks of this host, and what only each of them gets
    ranks: Mapping[int, Mapping[str, str]]
    bind: str  # of machine.BINDINGS
    grace_seconds: float  # between SIGTERM and SIGKILL
    torch_host: str  # where torch's ranks meet; empty: on the launcher's machine
    torch_port: int  # 0: they do not (--torch-env)
    silence_seconds: float  # after this time the launcher's machine counts as lost; 0: never
    # of an elastic job on this host, whose ranks come and go one by one; 0: the job is not elastic
    slots: int = 0

    def encode(self) -> bytes:
        text = json.dumps(dataclasses.asdict(self)).encode()
        return f"{len(text)}\n".encode() + text

    @classmethod
    def decode(cls, content: Mapping[str, Any]) -> AgentOrder:
        """Decodes what guardian.read_job() has read. Raises ValueError if it is another
        version's."""
        names = {each.name for each in dataclasses.fields(cls)}
        if content.keys() != names:
            raise ValueError(
                "launcher and agent are of different versions of hvdlite: install the same one on "
                f"every host (they disagree about {', '.join(sorted(names ^ content.keys()))})"
            )
        ranks = {int(rank): environment for rank, environment in content["ranks"].items()}
        return cls(**{**content, "ranks": ranks})


@dataclass(frozen=True)
class Frame:
    kind: bytes
    rank: int
    payload: bytes


def encode(kind: bytes, payload: bytes, rank: int = 0) -> bytes:
    return _HEADER.pack(kind, rank, len(payload)) + payload


@dataclass(frozen=True)
class StartOne:
    """Starts a rank with what only this one gets."""

    rank: int
    environment: Mapping[str, str]

    def encode(self) -> bytes:
        return _command(_START_ONE, self)


@dataclass(frozen=True)
class EndOne:
    """Ends a rank. `politely`: SIGTERM and the grace period first."""

    rank: int
    politely: bool

    def encode(self) -> bytes:
        return _command(_END_ONE, self)


Command = bytes | StartOne | EndOne


def _command(letter: bytes, order: StartOne | EndOne) -> bytes:
    text = json.dumps(dataclasses.asdict(order)).encode()
    return letter + f"{len(text)}\n".encode() + text


class Commands:
    """Cuts what the launcher writes behind START into letters and orders about one rank."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Command]:
        """Returns the commands that are now complete."""
        self._rest += data
        found: list[Command] = []
        while self._rest:
            letter = self._rest[:1]
            if letter not in (_START_ONE, _END_ONE):
                self._rest = self._rest[1:]
                found.append(letter)
                continue
            length, newline, text = self._rest[1:].partition(b"\n")
            if not newline or len(text) < int(length):
                break
            content, self._rest = json.loads(text[: int(length)]), text[int(length) :]
            found.append(StartOne(**content) if letter == _START_ONE else EndOne(**content))
        return found


class Decoder:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self.noise = b""  # the output before the mark, its end
        self.begun = False
        self._rest = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Returns the frames that are now complete. Raises ValueError if the stream is not an
        agent's."""
        self._rest += data
        if not self.begun:
            noise, mark, rest = self._rest.partition(MARK)
            self.noise = noise[-_MOST_NOISE:]
            if not mark:
                self._rest = self._rest[-_MOST_NOISE:]
                return []
            self.begun, self._rest = True, rest
        frames: list[Frame] = []
        position = 0
        while len(self._rest) - position >= _HEADER.size:
            kind, rank, length = _HEADER.unpack_from(self._rest, position)
            if kind not in (READY, REFUSED, EVENT, STDOUT, STDERR) or length > MOST_BYTES:
                raise ValueError(
                    "the agent sent something that is not a frame: "
                    f"{self._rest[position : position + 40]!r}"
                )
            start = position + _HEADER.size
            if len(self._rest) < start + length:
                break
            frames.append(Frame(kind, rank, self._rest[start : start + length]))
            position = start + length
        self._rest = self._rest[position:]
        return frames
