"""What has to be equal on all members before they can form a generation. Pure.

A member says of its settings, and of the tensors of its state, what they are. A newcomer that
differs would end the operations of all by an error, so it is refused before it is let in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from hvdlite.rendezvous.roll import Report

Pairs = tuple[tuple[str, str], ...]

_MOST_BYTES = 400_000
_MOST_NAME = 500
OTHERS = "all that follows"


def fitting(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """As much as a report has room for, and a checksum of the rest."""
    found: list[tuple[str, str]] = []
    rest, left, room = hashlib.sha256(), False, _MOST_BYTES
    for name, form in pairs:
        pair = _printable(name), _printable(form)
        room -= 6 * (len(pair[0]) + len(pair[1])) + 10  # as JSON at most
        if room > 0:
            found.append(pair)
        else:
            left = True
            rest.update(repr(pair).encode())
    if left:
        found.append((OTHERS, rest.hexdigest()))
    return tuple(found)


def difference(newcomer: Report, member: Report) -> str:
    """In words, the first difference between the two; empty if there is none."""
    theirs, ours = dict(newcomer.alike), dict(member.alike)
    for name, form in ours.items():
        if name not in theirs:
            return f"it has no {name}, which the job has"
        if theirs[name] != form:
            return f"{name} is {theirs[name]} there, and {form} in the job"
    more = next((name for name in theirs if name not in ours), None)
    return f"it has {more}, which the job has not" if more is not None else ""


def _printable(text: str) -> str:
    shown = "".join(c if c.isprintable() else "?" for c in text)
    if len(shown) <= _MOST_NAME:
        return shown
    return f"{shown[: _MOST_NAME - 20]}...{hashlib.sha256(shown.encode()).hexdigest()[:16]}"
