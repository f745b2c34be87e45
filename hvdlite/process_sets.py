"""Process sets: subsets of the ranks that communicate among themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hvdlite import _core
from hvdlite.exceptions import NotInitializedError
from hvdlite.ops import Kind, Sum

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]


class ProcessSet:
    """A set of global ranks. Register it with init(process_sets=[...]) or add_process_set() before use."""

    process_set_id: int | None = None
    ranks: list[int] | None = None
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Iterable[int]) -> None:
        ranks = list(ranks_or_comm)
        if not all(isinstance(r, int) and not isinstance(r, bool) for r in ranks):
            raise ValueError(f"ProcessSet takes a sequence of ranks (int), got {ranks!r}")
        self.ranks = sorted(ranks)

    def size(self) -> int | None:
        """How many ranks are in the set; None before it is registered."""
        if self.process_set_id is None:
            return None
        return len(_members(self.process_set_id))

    def rank(self) -> int | None:
        """This process' number within the set; None before it is registered."""
        if self.process_set_id is None:
            return None
        members = _members(self.process_set_id)
        if _core.rank() not in members:
            raise ValueError("Process is not part of provided process set.")
        return members.index(_core.rank())

    def included(self) -> bool | None:
        """Whether this process is in the set; None if that is not known yet."""
        if self.ranks is None:
            return None
        return _core.rank() in self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"

    __repr__ = __str__


def _members(process_set_id: int) -> list[int]:
    members = _core.process_set_ranks(process_set_id)
    if not members:
        raise ValueError("Process set does not exist or has not been registered.")
    return members


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0
global_process_set.ranks = None


def set_id_of(process_set: ProcessSet) -> int:
    """The number by which the native core knows the set."""
    if not isinstance(process_set, ProcessSet):
        raise TypeError(f"process_set must be a ProcessSet, not {type(process_set).__name__}")
    set_id = process_set.process_set_id
    if set_id is None:
        if not _core.is_initialized():
            raise NotInitializedError()
        raise ValueError(
            f"{process_set} is not registered: pass it to hvd.init(process_sets=[...]) or hvd.add_process_set() first"
        )
    return set_id


def _registered_id(ranks: list[int]) -> int | None:
    for known in _core.process_set_ids():
        if _core.process_set_ranks(known) == ranks:
            return known
    return None


def _check(process_set: ProcessSet) -> list[int]:
    ranks = process_set.ranks or []
    if not ranks:
        raise ValueError("a process set needs at least one rank")
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"a process set must not name a rank twice: {ranks}")
    outside = [r for r in ranks if not 0 <= r < _core.size()]
    if outside:
        raise ValueError(f"ranks {outside} do not exist in a job of size {_core.size()}")
    return ranks


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Registers a process set. All ranks of the job must call this, with the same ranks, in the same order."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    ranks = _check(process_set)
    known = _registered_id(ranks)
    if known is not None:
        raise ValueError(f"Attempted to add a duplicate process set: ranks {ranks} are process set {known} already.")
    process_set.process_set_id = _core.run(Kind.ADD_PROCESS_SET, Sum, 0, None, None, None, 0, 1.0, 1.0, ranks)[2]
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a process set on all ranks, all of which must call this. False if there is nothing to remove."""
    if process_set.process_set_id is None or process_set.process_set_id == 0:
        return False
    number = process_set.process_set_id
    existed = bool(_core.run(Kind.REMOVE_PROCESS_SET, Sum, 0, None, None, None, number, 1.0, 1.0, [])[2] == 1)
    process_set.process_set_id = None
    return existed


def register_all(process_sets: list[ProcessSet]) -> None:
    """What init(process_sets=[...]) does: registers those that are new, finds the ids of those that are not."""
    seen: list[list[int]] = [_core.process_set_ranks(0)]
    for number, process_set in enumerate(process_sets):
        ranks = _check(process_set)
        if ranks in seen:
            raise ValueError(
                "Horovod could not be initialized because process_sets entry number "
                f"{number} is a duplicate: {process_set}"
            )
        seen.append(ranks)
    for process_set in process_sets:
        known = _registered_id(process_set.ranks or [])
        if known is None:
            add_process_set(process_set)
        else:
            process_set.process_set_id = known
