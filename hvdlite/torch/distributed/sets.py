"""The process set of a group: the one place that decides it."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from typing import Any

from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet
from hvdlite.job.process_sets import add_process_set

_KEY = "hvdlite's process set"


def set_of(ranks: Sequence[int], group: str, store: Any) -> ProcessSet:
    """A set of its own for each group, so that its operations need no names. Only the members call
    this, each with the same arguments, because torch asks no other ranks.

    `store`: a torch store that only the members of the group use. A program may make a group again
    under its name, so the set's name has a part that is new.
    """
    if list(ranks) != sorted(ranks):
        raise ValueError(
            f"new_group({list(ranks)}): the backend hvdlite takes ranks in ascending order"
        )
    is_first = engine.rank() == ranks[0]
    new = secrets.token_hex(4) if is_first else ""
    if len(ranks) > 1:
        if is_first:
            store.set(_KEY, new)
        else:
            new = store.get(_KEY).decode()
    made = add_process_set(ranks, name=f"torch.distributed's group {group} ({new})")
    if is_first and len(ranks) > 1:  # all have read it
        with contextlib.suppress(RuntimeError):  # not every store of torch can delete
            store.delete_key(_KEY)
    return made
