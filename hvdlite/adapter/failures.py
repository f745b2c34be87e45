"""Our errors, as they come back out of a framework's runtime: a text between the runtime's own
words.

csrc/ingraph/failure.h writes it: `hvdlite.PeerLostError (rank 2): ...`, or, where no rank is to
blame, `hvdlite.MismatchError: ...`.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator

from hvdlite import exceptions

_TEXT = re.compile(r"hvdlite\.(?P<kind>\w+)(?: \(rank (?P<rank>\d+)\))?: (?P<message>[^\n]*)")
_BUILTIN: dict[str, type[Exception]] = {
    "ValueError": ValueError,
    "TimeoutError": TimeoutError,
    "NotImplementedError": NotImplementedError,
}


def of_text(text: str) -> Exception | None:
    """The exception that the text stands for; None if it is not one of ours."""
    found = _TEXT.search(text)
    if found is None:
        return None
    kind, message = found["kind"], found["message"]
    if kind == "PeerLostError":
        return exceptions.PeerLostError(message, int(found["rank"] or -1))
    if kind in _BUILTIN:
        return _BUILTIN[kind](message)
    made: type[Exception] = getattr(exceptions, kind, exceptions.HorovodInternalError)
    return made(message)


@contextlib.contextmanager
def translated(*theirs: type[Exception]) -> Iterator[None]:
    """An error of these classes that carries one of ours leaves the block as ours."""
    try:
        yield
    except theirs as error:
        ours = of_text(str(error))
        if ours is None:
            raise
        raise ours from error


@contextlib.contextmanager
def of_any_framework() -> Iterator[None]:
    """translated() for the errors of whatever framework is loaded."""
    tensorflow = sys.modules.get("tensorflow")
    theirs = () if tensorflow is None else (tensorflow.errors.OpError,)
    with translated(RuntimeError, ValueError, *theirs):
        yield
