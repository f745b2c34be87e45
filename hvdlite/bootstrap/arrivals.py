"""What rank 0 takes back when all ranks have come: what it has told them is then of use to strangers only."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

_log = logging.getLogger(__name__)
_to_do: list[Callable[[], None]] = []


def when_all_are_here(act: Callable[[], None]) -> None:
    """`act` takes a few seconds at most. OSError, RuntimeError: it could not be done, which harms no job."""
    _to_do.append(act)


def all_are_here() -> None:
    """The native core has met all ranks."""
    while _to_do:
        act = _to_do.pop()
        try:
            act()
        except (OSError, RuntimeError) as error:
            _log.info("what rank 0 has told the others could not be taken back: %s", error)


# A forked child has no job, and the connections are its parent's.
os.register_at_fork(after_in_child=_to_do.clear)
