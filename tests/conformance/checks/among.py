"""The process sets to try an operation in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import hvdlite as hvd
from checks import Skipped
from checks.here import Here


@dataclass(frozen=True)
class Among:
    """A process set to try, and who is in it."""

    process_set: hvd.ProcessSet
    members: tuple[int, ...]
    here: Here

    @property
    def mine(self) -> int:
        return self.members.index(self.here.rank)

    def of(self, everyones: list[np.ndarray]) -> list[np.ndarray]:
        """What the members contribute, in their order."""
        return [everyones[rank] for rank in self.members]


@contextlib.contextmanager
def process_sets(here: Here) -> Iterator[list[Among]]:
    """The global set and some others; only those that this rank is in."""
    wanted = [(0,), tuple(range(1, here.size)), (0, here.size - 1)]
    wanted = [w for i, w in enumerate(wanted) if w and len(set(w)) < here.size and w not in wanted[:i]]
    wanted = [w for w in wanted if len(set(w)) == len(w)]
    added = [(hvd.add_process_set(list(w)), w) for w in wanted]
    everybody = [(hvd.global_process_set, tuple(here.ranks)), *added]
    skipped = None
    try:
        yield [Among(s, members, here) for s, members in everybody if here.rank in members]
    except Skipped as reason:  # on all ranks, unlike a failure: removing takes all of them
        skipped = reason
    for process_set, _ in added:
        hvd.remove_process_set(process_set)
    if skipped is not None:
        raise skipped
