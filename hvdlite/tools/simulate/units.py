"""Reads and writes quantities with units: 10Gbit, 25us, 1.5GB. Pure."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([a-zA-Zµ]*)(?:/s)?\s*")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_BINARY = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30}


def _split(text: str, example: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text)
    if match is None or not match[2]:
        raise ValueError(f"'{text}' is not a number with a unit, such as {example}")
    return float(match[1]), match[2]


def seconds(text: str) -> float:
    """'25us' as seconds."""
    number, unit = _split(text, "25us")
    if unit not in _SECONDS:
        raise ValueError(f"'{text}': the unit of a time is one of {', '.join(_SECONDS)}")
    return number * _SECONDS[unit]


def bytes_per_second(text: str) -> float:
    """'10Gbit' or '1.2GB' as bytes in a second. The prefixes are powers of ten, those with an i
    are powers of two."""
    number, unit = _split(text, "10Gbit")
    name = unit.lower()
    if name.endswith("bit") and name[:-3] in _PREFIXES:
        return number * _PREFIXES[name[:-3]] / 8
    if unit.endswith("B") and name[:-1] in _PREFIXES | _BINARY:
        return number * (_PREFIXES | _BINARY)[name[:-1]]
    raise ValueError(
        f"'{text}': a bandwidth is in bits, such as 10Gbit, or in bytes, such as 1.2GB"
    )


def bandwidth_text(rate: float) -> str:
    """Bytes in a second as bits in a second, such as 10 Gbit."""
    return _text(rate * 8, ("Tbit", 1e12), ("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3), form="g")


def time_text(value: float) -> str:
    """Seconds with three digits."""
    return _text(value, ("s", 1.0), ("ms", 1e-3), ("us", 1e-6))


def size_text(count: float) -> str:
    """Bytes with three digits."""
    return _text(count, ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))


def _text(value: float, *units: tuple[str, float], form: str = ".3g") -> str:
    """In the first unit of which it has at least one, or in the last."""
    unit, factor = next((each for each in units if value >= each[1]), units[-1])
    return f"{value / factor:{form}} {unit}"
