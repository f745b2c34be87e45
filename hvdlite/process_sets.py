"""Process sets: subsets of the ranks that communicate among themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hvdlite import _core, communicators
from hvdlite.exceptions import NotInitializedError
from hvdlite.ops import Kind, Sum

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]


class ProcessSet:
    """A set of global ranks. Register it with init(process_sets=[...]) or add_process_set() before use.

    Of a communicator of mpi4py it is the set of its ranks, which are known when it is registered. Each rank passes the one that it
    is in, as Split() makes them, and all of these become process sets."""

    process_set_id: int | None = None
    ranks: list[int] | None = None
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Iterable[int] | Any) -> None:
        if communicators.is_communicator(ranks_or_comm):
            self.mpi_comm = ranks_or_comm
            return
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
    for ranks in _meant([process_set])[0]:
        known = _registered_id(ranks)
        if known is not None:
            raise ValueError(
                f"Attempted to add a duplicate process set: ranks {ranks} are process set {known} already."
            )
        _register(process_set, ranks)
    return process_set


def _meant(process_sets: list[ProcessSet]) -> list[list[list[int]]]:
    """For each of them the sets of ranks that it stands for: its own, or, of a communicator, that of each rank."""
    if all(process_set.mpi_comm is None for process_set in process_sets):
        return [[_check(process_set)] for process_set in process_sets]
    for process_set in process_sets:
        if process_set.mpi_comm is not None:
            process_set.ranks = communicators.ranks_of(process_set.mpi_comm)
        else:
            _check(process_set)
    return communicators.agree([(s.mpi_comm is not None, s.ranks) for s in process_sets])


def _register(process_set: ProcessSet, ranks: list[int]) -> None:
    """On all ranks; the object of this one has its own ranks only."""
    number = _registered_id(ranks)
    if number is None:
        number = _core.run(Kind.ADD_PROCESS_SET, Sum, 0, None, None, None, 0, 1.0, 1.0, ranks)[2]
    if process_set.ranks == ranks:
        process_set.process_set_id = number


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
    meant = _meant(process_sets)
    for number, (process_set, sets) in enumerate(zip(process_sets, meant, strict=True)):
        if any(ranks in seen for ranks in sets):
            raise ValueError(
                "Horovod could not be initialized because process_sets entry number "
                f"{number} is a duplicate: {process_set}"
            )
        seen += sets
    for process_set, sets in zip(process_sets, meant, strict=True):
        for ranks in sets:
            _register(process_set, ranks)
