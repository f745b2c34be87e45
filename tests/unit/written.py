"""A writer that keeps what it is given."""

from __future__ import annotations

from hvdlite.launch.output import Writer


class Kept(Writer):
    backlog = 0

    def __init__(self) -> None:
        self.data = b""

    def put(self, data: bytes) -> None:
        self.data += data
