"""horovod.runner.util.streams: a pipe inside a process."""

from __future__ import annotations

import threading

__all__ = ["Pipe"]


class Pipe:
    """One thread writes text or bytes, and another one reads them. A writer waits until the text
    before has been read."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: str | bytes | None = None
        self._closed = False

    def write(self, buf: str | bytes) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._held is None or self._closed)
            if self._closed:
                raise RuntimeError("Pipe is closed")
            if buf:
                self._held = buf
                self._changed.notify_all()

    def read(self, length: int = -1, timeout: float | None = None) -> str | bytes | None:
        """Returns at most `length` characters or bytes of the text, if that is positive. None: the
        pipe is closed, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._held is not None or self._closed, timeout)
            if self._held is None:
                return None
            cut = length if 0 < length < len(self._held) else len(self._held)
            piece, rest = self._held[:cut], self._held[cut:]
            self._held = rest or None
            self._changed.notify_all()
            return piece

    def flush(self) -> None:
        """Does nothing: the pipe buffers nothing."""

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
