"""Puts a page into its file: never half of one, and readable by its owner alone."""

from __future__ import annotations

import contextlib
import os
import stat


def write(path: str, text: str) -> None:
    """Raises OSError. What is no file, such as /dev/stdout, is written to as it is."""
    data = text.encode()
    place = os.path.realpath(path)
    if os.path.exists(place) and not stat.S_ISREG(os.stat(place).st_mode):
        # A pipe that no process reads is an error: the launcher must not wait for a reader.
        _write_and_close(os.open(place, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC), data)
        return
    new = f"{place}.{os.getpid()}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(new, flags, 0o600)
    try:
        _write_and_close(descriptor, data)
        os.rename(new, place)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


def _write_and_close(descriptor: int, data: bytes) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
