"""Communicators of mpi4py by which a program names ranks: init(comm=...), ProcessSet(comm)."""

from __future__ import annotations

import sys
from typing import Any

from hvdlite import _core

# The argument of init() and the launcher's ranks that make the job. They relate MPI's ranks to the
# job's.
_job: Any = None
_part: tuple[int, ...] = ()


def begin(communicator: Any, part: tuple[int, ...]) -> None:
    """Called when a job has begun."""
    global _job, _part
    _job, _part = communicator, part


def ranks_of(communicator: Any) -> list[int] | None:
    """Returns the job's ranks in the communicator, ascending; None for COMM_NULL, which a process
    gets that is in no group. Raises ValueError if it has other ranks, or if MPI does not know this
    job."""
    mpi = sys.modules["mpi4py.MPI"]  # a program needs it to have a communicator
    if communicator == mpi.COMM_NULL:
        return None
    whole = mpi.COMM_WORLD if _job is None else _job
    group = whole.Get_group().Incl(_part) if _part else whole.Get_group()
    if (group.Get_rank(), group.Get_size()) != (_core.rank(), _core.size()):
        raise ValueError(
            f"this process is rank {_core.rank()} of {_core.size()} in the job, but MPI says that "
            f"it is rank {group.Get_rank()} of {group.Get_size()}, so a communicator does not tell "
            "the job's ranks: start the program with mpirun, or pass ranks"
        )
    ranks = sorted(mpi.Group.Translate_ranks(communicator.Get_group(), None, group))
    if mpi.UNDEFINED in ranks:
        raise ValueError("a process set's communicator has processes that are not in the job")
    return ranks


def agree(mine: list[tuple[bool, list[int] | None]]) -> list[list[list[int]]]:
    """Returns what each entry of a list of process sets means to all ranks together. The lists have
    the same length on all ranks. An entry says whether it was a communicator, which may differ
    between ranks, and has its ranks here."""
    # imports cloudpickle, which init() does not need
    from hvdlite.core.arrays.objects import allgather_object

    said = allgather_object(mine)
    if len({len(entries) for entries in said}) > 1:
        counts = ", ".join(f"rank {rank} has {len(entries)}" for rank, entries in enumerate(said))
        raise ValueError(
            f"the ranks pass lists of different lengths to hvd.init(process_sets=...): {counts}"
        )
    meant = []
    for number, entries in enumerate(zip(*said, strict=True)):
        distinct = sorted({tuple(ranks) for _, ranks in entries if ranks is not None})
        if len(distinct) > 1 and not all(is_communicator for is_communicator, _ in entries):
            raise ValueError(
                f"process_sets entry number {number} differs between ranks: "
                f"{[ranks for _, ranks in entries]}"
            )
        meant.append([list(ranks) for ranks in distinct])
    return meant
