"""Process sets: subsets of the ranks that communicate among themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from hvdlite import _core
from hvdlite.exceptions import NotInitializedError


def is_communicator(comm: Any) -> bool:
    """Whether it is mpi4py's, which no program has without having imported that."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and isinstance(comm, mpi.Comm)


class ProcessSet:
    """A set of global ranks. Register it with init(process_sets=[...]) or add_process_set() before
    use.

    Of a communicator of mpi4py it is the set of its ranks, which are known when it is registered.
    Each rank passes the one that it is in, as Split() makes them, and all of these become process
    sets.

    Of a function it is the ranks that this returns for the size of the job, such as `lambda size:
    range(size // 2)`. In an elastic job the set follows the size."""

    process_set_id: int | None = None
    ranks: list[int] | None = None
    mpi_comm: Any = None
    rule: Callable[[int], Iterable[int]] | None = None
    # Of a set that was registered, and that no rank is in any more: why.
    missing: str = ""
    #: Of a set that its members alone have added: see add_process_set(). None for another set.
    name: str | None = None

    def __init__(self, ranks_or_comm: Iterable[int] | Callable[[int], Iterable[int]] | Any) -> None:
        if is_communicator(ranks_or_comm):
            self.mpi_comm = ranks_or_comm
            return
        if callable(ranks_or_comm):
            self.rule = ranks_or_comm
        else:
            self.ranks = _checked(ranks_or_comm)

    def apply_rule(self, size: int) -> None:
        """The ranks of a set by rule, in a job of this size."""
        if self.rule is not None:
            self.ranks = _checked(self.rule(size))

    def size(self) -> int | None:
        """How many ranks are in the set; None before it is registered."""
        if self.process_set_id is None:
            return None
        return len(_members(self.process_set_id))

    def rank(self) -> int | None:
        """This process's number within the set; None before it is registered."""
        if self.process_set_id is None:
            return None
        members = _members(self.process_set_id)
        if _core.rank() not in members:
            raise ValueError(
                f"rank {_core.rank()} is not a member of process set {self.process_set_id}: see "
                "ProcessSet.included()"
            )
        return members.index(_core.rank())

    def included(self) -> bool | None:
        """Whether this process is in the set; None if that is not known yet."""
        if self.ranks is None:
            return None
        return _core.rank() in self.ranks

    def __str__(self) -> str:
        return (
            f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, "
            f"mpi_comm={self.mpi_comm})"
        )

    __repr__ = __str__


def _checked(given: Iterable[int]) -> list[int]:
    ranks = list(given)
    if not all(isinstance(r, int) and not isinstance(r, bool) for r in ranks):
        raise ValueError(f"ProcessSet takes a sequence of ranks (int), got {ranks!r}")
    return sorted(ranks)


def ranks_in_job(process_set: ProcessSet) -> list[int]:
    """The ranks of a set that is not registered yet. ValueError if this job cannot have it."""
    ranks = process_set.ranks or []
    if not ranks:
        raise ValueError("a process set needs at least one rank")
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"a process set must not name a rank twice: {ranks}")
    outside = [r for r in ranks if not 0 <= r < _core.size()]
    if outside:
        raise ValueError(f"ranks {outside} do not exist in a job of size {_core.size()}")
    return ranks


def _members(process_set_id: int) -> list[int]:
    members = _core.process_set_ranks(process_set_id)
    if not members:
        raise ValueError(
            f"process set {process_set_id} does not exist: hvd.init(process_sets=...) and "
            "hvd.add_process_set() make one"
        )
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
        if process_set.missing:
            raise ValueError(f"{process_set} has no rank: {process_set.missing}")
        raise ValueError(
            f"{process_set} is not registered: pass it to hvd.init(process_sets=[...]) or "
            "hvd.add_process_set() first"
        )
    return set_id
