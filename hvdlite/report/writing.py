"""Puts a page into its file: never half of one, and readable by its owner alone."""

from __future__ import annotations

import os
import stat

from hvdlite.base import private_file


def write(path: str, text: str) -> None:
    """Raises OSError. What is no file, such as /dev/stdout, is written to as it is."""
    data = text.encode()
    place = os.path.realpath(path)
    if os.path.exists(place) and not stat.S_ISREG(os.stat(place).st_mode):
        # A pipe that no process reads is an error: the launcher must not wait for a reader.
        pipe = os.open(place, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        private_file.write_and_close(pipe, data)
        return
    private_file.write(place, data)
