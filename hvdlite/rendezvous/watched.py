"""Tells the process that serves the store about changed keys."""

from __future__ import annotations

import collections
import contextlib
import os


class Watched:
    """Keys that clients have set below a prefix, in order. The store's thread writes, and one other
    thread reads."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._heard: collections.deque[tuple[str, bytes]] = collections.deque()
        self._news, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Returns a descriptor that is readable when take() has something."""
        return self._news

    def take(self) -> list[tuple[str, bytes]]:
        """Returns keys, without the prefix, and values."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._news, 1 << 16)
        found = []
        while self._heard:
            found.append(self._heard.popleft())
        return found

    def heard(self, key: str, value: bytes) -> None:
        if key.startswith(self._prefix):
            self._heard.append((key[len(self._prefix) :], value))
            with contextlib.suppress(BlockingIOError):  # full, so it is readable already
                os.write(self._bell, b"k")

    def close(self) -> None:
        os.close(self._news)
        os.close(self._bell)
