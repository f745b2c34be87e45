"""What rank 0 takes back when all ranks have come. From then on, only strangers could use what it
has published."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

_log = logging.getLogger(__name__)
_to_do: list[Callable[[], None]] = []


def when_all_are_here(act: Callable[[], None]) -> None:
    """Registers `act`, which takes a few seconds at most. If it raises OSError or RuntimeError, the
    job is not harmed."""
    _to_do.append(act)


def all_are_here() -> None:
    """Called when the native core has met all ranks."""
    while _to_do:
        act = _to_do.pop()
        try:
            act()
        except (OSError, RuntimeError) as error:
            _log.info(
                "rank 0 could not withdraw what it had published for the other ranks: %s", error
            )


# A forked child has no job, and its parent owns the connections.
os.register_at_fork(after_in_child=_to_do.clear)
