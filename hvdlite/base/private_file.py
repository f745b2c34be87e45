"""Files that only their owner can read, and of which no reader sees half."""

from __future__ import annotations

import contextlib
import os
import stat


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


def write_as_asked(path: str, data: bytes) -> None:
    """As write(), at a place that the user has named: a link is followed, and what is no file, such
    as /dev/stdout, is written to as it is. Raises OSError."""
    place = os.path.realpath(path)
    if os.path.exists(place) and not stat.S_ISREG(os.stat(place).st_mode):
        # A pipe that no process reads is an error: the launcher must not wait for a reader.
        pipe = os.open(place, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        write_and_close(pipe, data)
        return
    write(place, data)


def write_and_close(descriptor: int, data: bytes) -> None:
    """Writes all of it."""
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
