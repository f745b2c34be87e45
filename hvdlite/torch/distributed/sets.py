"""The process set of a group: the one place that decides it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet, global_process_set


def set_of(ranks: Sequence[int], group: str, store: Any) -> ProcessSet:
    """Only the members call this, each with the same arguments, because torch asks no other ranks.

    Groups of all ranks share one set; the names of their operations keep them apart. `store`: a
    torch store that only the members of the group use.
    """
    if list(ranks) == engine.ranks_of(0):
        return global_process_set
    raise NotImplementedError(
        f"new_group({list(ranks)}): the backend hvdlite makes groups of all ranks only"
    )
