"""`hvd.init(comm=...)`: chooses which of the started processes make the job, and their ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hvdlite.launch.environment import Identity
from hvdlite.launch.environment.identity import OverMpi


def of_communicator(comm: Any, started: Identity) -> Identity:
    """The job is the communicator's ranks in its order, and they meet over it. Raises ValueError if
    this process is not in it."""
    from mpi4py import MPI

    if comm == MPI.COMM_NULL:
        raise ValueError(
            "init(comm=MPI.COMM_NULL): this process is in none of the groups that the communicator "
            "was made for: a rank that has no part in the job must not call init()"
        )
    if comm.Is_inter():
        raise ValueError(
            "init(comm=...) takes an intracommunicator: Merge() makes one of the two groups"
        )
    numbers = MPI.Group.Translate_ranks(comm.Get_group(), None, MPI.COMM_WORLD.Get_group())
    here = started.on_one_host and MPI.UNDEFINED not in numbers
    return _place(started, comm.Get_rank(), comm.Get_size(), here, rendezvous_method=OverMpi())


def of_ranks(ranks: Any, started: Identity) -> Identity:
    """The job is these ranks of those that the launcher has started; the position in the list is
    the rank. Raises ValueError if the list makes no job, or does not name this process."""
    part = tuple(ranks)
    if not all(isinstance(rank, int) and not isinstance(rank, bool) for rank in part):
        raise ValueError(
            "init(comm=...) takes a communicator of mpi4py or a list of ranks (int), got "
            f"{list(part)!r}"
        )
    if part == tuple(range(started.size)):
        return started
    outside = [rank for rank in part if not 0 <= rank < started.size]
    if outside:
        raise ValueError(
            f"init(comm={list(part)}): ranks {outside} do not exist in a job of size {started.size}"
        )
    if len(set(part)) != len(part):
        raise ValueError(f"init(comm={list(part)}) names a rank twice")
    if started.rank not in part:
        raise ValueError(
            f"init(comm={list(part)}): this is rank {started.rank}, which is not in the list: a "
            "rank that has no part in the job must not call init()"
        )
    return _place(started, part.index(started.rank), len(part), started.on_one_host, part=part)


def _place(started: Identity, rank: int, size: int, here: bool, **what: Any) -> Identity:
    local = (rank, size) if here else (None, None)
    return replace(
        started,
        rank=rank,
        size=size,
        local_rank=local[0],
        local_size=local[1],
        cross_rank=None,
        cross_size=None,
        launcher=started.launcher or "MPI",
        whole=started,
        **what,
    )
