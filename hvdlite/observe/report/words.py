"""Numbers and names for people. Pure."""

from __future__ import annotations

import html
import math
import os
import re
import time
from collections.abc import Sequence

# What writes to terminals, what no page may contain, and what changes the order of letters.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff"
    r"\ud800-\udfff\ufffe\uffff]"
)
_ASSIGNS = re.compile(r"\w+=")


def escaped(text: object) -> str:
    """For HTML, in texts and attributes."""
    return html.escape(plain(str(text)))


def plain(text: str) -> str:
    """Without characters that are none of a text."""
    return _CONTROL.sub("", text)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def size(value: float | None) -> str:
    if value is None:
        return "–"
    unit = "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if abs(value) < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{digits(value)} {unit}"


def count(value: float | None) -> str:
    """With narrow spaces between thousands."""
    return "–" if value is None else f"{value:,.0f}".replace(",", "\u202f")


def seconds(value: float | None) -> str:
    """A short time, such as a step."""
    if value is None:
        return "–"
    if not value:
        return "0 s"
    factor, unit = unit_of(value)
    return f"{digits(value * factor)} {unit}"


def unit_of(most: float) -> tuple[float, str]:
    """How many of which unit of time make a second, for times up to so many seconds."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if most * factor >= 1:
            return factor, unit
    return 1e6, "µs"


def duration(value: float | None) -> str:
    """A long time: 2 h 05 min."""
    if value is None:
        return "–"
    whole = int(value)
    if whole < 60:
        return seconds(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def date(value: float | None) -> str:
    if value is None:
        return "–"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(value))


def digits(value: float) -> str:
    """Three digits."""
    if value == 0 or value >= 100:
        return f"{value:.0f}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(places, 4)}f}"


def ranks(numbers: Sequence[int]) -> str:
    """0 to 3, 5"""
    parts: list[str] = []
    ordered = sorted(numbers)
    begin = 0
    for i, number in enumerate(ordered):
        if i + 1 == len(ordered) or ordered[i + 1] != number + 1:
            first = ordered[begin]
            parts.append(str(first) if first == number else f"{first} to {number}")
            begin = i + 1
    return ", ".join(parts)


def command(program: Sequence[str]) -> str:
    """The program of a job, without its arguments: they may hold secrets. Of an absolute path, the
    name."""
    left = list(program)
    while left and (os.path.basename(left[0]) == "env" or _ASSIGNS.match(left[0])):
        left.pop(0)
    if not left:
        return ""
    shown = [os.path.basename(left.pop(0))]
    if shown[0].startswith(("python", "pypy")):
        while left and left[0].startswith("-") and left[0] not in ("-m", "-c"):
            left.pop(0)
        if left:
            word = left.pop(0)
            shown.append(os.path.basename(word) if os.path.isabs(word) else word)
        if shown[-1] == "-m" and left:
            shown.append(left.pop(0))
    return " ".join(shown) + (" …" if left else "")
