"""Is MPI to be asked about? Pure."""

from __future__ import annotations

from hvdlite.launch.environment.identity import Identity


def asks_about_mpi(me: Identity, cpu_operations: str, pretends: bool, world: tuple[int, int] | None) -> bool:
    """Whether this rank loads MPI, and initialises it if nobody has.

    `pretends`: ranks of one host say that they are on several. `world`: rank and size by the program's own MPI, if it has
    initialised that. Where nobody has asked for MPI it is initialised only under an MPI's launcher: elsewhere Open MPI may end
    the process, or believe that it is alone. And only where it might be used: ranks of one host share memory, and start sooner.
    """
    if me.size == 1 or cpu_operations not in ("auto", "mpi"):
        return False
    if cpu_operations == "mpi":
        return True
    if me.on_one_host and not pretends:
        return False
    return me.by_mpi or world == (me.rank, me.size)
