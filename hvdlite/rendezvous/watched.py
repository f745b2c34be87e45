"""Tells the process that serves the store about changed keys."""

from __future__ import annotations

from hvdlite.base.mailbox import Mailbox


class Watched(Mailbox[tuple[str, bytes]]):
    """Keys that clients have set below a prefix, without the prefix, and their values. The store's
    thread writes, and one other thread reads."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def heard(self, key: str, value: bytes) -> None:
        if key.startswith(self._prefix):
            self.put((key[len(self._prefix) :], value))
