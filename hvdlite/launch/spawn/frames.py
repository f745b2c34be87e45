"""What the agent on another host sends to the launcher on its standard output. Pure.

First a line that marks the beginning: a login shell may have printed whatever it likes before. Then frames:

    kind (1 byte)   rank (4)   length (4, both big-endian)   payload

    r   ready: the payload is the address at which the ranks will reach the store
    x   cannot take part: a sentence, the last frame
    e   an event, as events.line() writes it
    1   what a rank wrote to its standard output; empty: the stream has ended
    2   the same of standard error

The launcher sends an Order (see order.py), and then single letters: `S` start, and the guardian's.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MARK = b"\n\0hvdlite agent 1\n"
READY, REFUSED, EVENT, STDOUT, STDERR = b"r", b"x", b"e", b"1", b"2"
START = b"S"

_HEADER = struct.Struct(">cII")
_MOST_NOISE = 1 << 16
# The agent never sends more in one frame.
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Frame:
    kind: bytes
    rank: int
    payload: bytes


def encode(kind: bytes, payload: bytes, rank: int = 0) -> bytes:
    return _HEADER.pack(kind, rank, len(payload)) + payload


class Decoder:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self.noise = b""  # what came before the mark, its end
        self.begun = False
        self._rest = b""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are now complete. ValueError: the stream is no agent's."""
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
                raise ValueError(f"the agent sent something that is no frame: {self._rest[position : position + 40]!r}")
            start = position + _HEADER.size
            if len(self._rest) < start + length:
                break
            frames.append(Frame(kind, rank, self._rest[start : start + length]))
            position = start + length
        self._rest = self._rest[position:]
        return frames
