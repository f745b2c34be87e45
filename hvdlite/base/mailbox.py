"""Items from one thread to another one that waits in select()."""

from __future__ import annotations

import collections
import contextlib
import os
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Mailbox(Generic[Item]):
    """One thread puts, another one takes. Neither waits."""

    def __init__(self) -> None:
        self._items: collections.deque[Item] = collections.deque()
        self._reader, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Returns a descriptor that is readable when take() has something."""
        return self._reader

    def put(self, item: Item) -> None:
        self._items.append(item)
        with contextlib.suppress(OSError):  # full, so it is readable already, or closed
            os.write(self._bell, b".")

    def take(self) -> list[Item]:
        """Returns all items, in their order."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reader, 1 << 16)
        return [self._items.popleft() for _ in range(len(self._items))]

    def close(self) -> None:
        """A thread that puts later than this writes to no other file."""
        reader, bell, self._reader, self._bell = self._reader, self._bell, -1, -1
        os.close(reader)
        os.close(bell)
