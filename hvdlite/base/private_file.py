"""Files that only their owner can read, and of which no reader sees half."""

from __future__ import annotations

import contextlib
import os


def write(path: str, data: bytes) -> None:
    """Makes the file, or replaces it. Raises OSError."""
    new = f"{path}.{os.getpid()}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(new, flags, 0o600)
    try:
        write_and_close(descriptor, data)
        os.rename(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


def write_and_close(descriptor: int, data: bytes) -> None:
    """Writes all of it."""
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
