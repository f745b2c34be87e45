"""Files and texts that others have made: they may be broken, or hostile. What a function refuses is
a ValueError, whose text goes on after "it cannot be read:"."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import zlib
from typing import Any

# Beyond this, no count, no size and no time of a job is right.
_LARGEST = 1e18
_MIB = 1 << 20
# A trace shrinks to a tenth or a thirtieth; a bomb to a thousandth.
_UNPACKED_TIMES, _UNPACKED_BYTES = 100, 64 * _MIB


def read(path: str, most: int) -> bytes:
    """Returns the bytes of a regular file that has at most so many. Never waits for a writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is not a file")
        data = file.read(most + 1) if about.st_size <= most else None
    if data is None or len(data) > most:
        raise ValueError(f"it is larger than {most // _MIB} MiB")
    return data


def unpacked(data: bytes) -> bytes:
    """Returns what gzip has packed, unless it is far larger than any trace would be."""
    most = max(_UNPACKED_BYTES, _UNPACKED_TIMES * len(data))
    try:
        found = gzip.GzipFile(fileobj=io.BytesIO(data)).read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"it is not what gzip has packed: {error}") from None
    if len(found) > most:
        raise ValueError(f"it unpacks to more than {most // _MIB} MiB")
    return found


def parsed(text: str | bytes) -> Any:
    """Returns what the text of JSON says."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_number(value: Any, least: float = -_LARGEST, most: float = _LARGEST) -> bool:
    """Whether it is a number of JSON in these bounds; NaN is in none."""
    return isinstance(value, (int, float)) and least <= value <= most


def is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def are_numbers(value: Any, depth: int = 1) -> bool:
    """Whether it is a table of numbers, or with more depth one of such tables."""
    if depth == 0:
        return is_number(value)
    return isinstance(value, dict) and all(are_numbers(each, depth - 1) for each in value.values())


def are_texts(value: Any) -> bool:
    """Whether it is a table of texts."""
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def printable(text: str) -> str:
    """Returns the text without control characters of terminals."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
