"""Decides whether hvdlite asks about MPI, and what programs hear about it. Pure."""

from __future__ import annotations

from hvdlite.launch.environment.identity import Identity, OverMpi


def asks_about_mpi(
    me: Identity, cpu_operations: str, pretends: bool, world: tuple[int, int] | None
) -> bool:
    """Whether this rank loads MPI, and initialises it if the program has not.

    `pretends`: ranks of one host act as ranks of several hosts. `world`: rank and size by the
    program's own MPI, if the program has initialised it. Unless the user asks for MPI, it is
    initialised only under an MPI's launcher: elsewhere Open MPI may end the process, or believe
    that it is alone. It is also initialised only if it might be used: ranks of one host share
    memory, and start sooner without it.
    """
    if me.size == 1 or cpu_operations not in ("auto", "mpi"):
        return False
    if cpu_operations == "mpi":
        return True
    if me.on_one_host and not pretends:
        return False
    return me.by_mpi or world == (me.rank, me.size)


def meets_over_mpi(me: Identity, cpu_operations: str) -> bool:
    """Whether MPI is part of this job although its tensors may not need it: mpirun has started it,
    the ranks have met through its MPI, and the user has not chosen otherwise. All ranks of a job
    agree."""
    return me.size > 1 and isinstance(me.meeting, OverMpi) and cpu_operations in ("auto", "mpi")
