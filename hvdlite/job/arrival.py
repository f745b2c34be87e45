"""What init() needs before the native core can meet the other ranks: this process's rank, the place
to meet, and the MPI.

`hvdlite.job.bootstrap` is imported only if something has to be found out. hvdliterun has told its
ranks everything, so they start sooner.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hvdlite import _core
from hvdlite.base import knobs
from hvdlite.core.process_sets import is_communicator
from hvdlite.launch import environment
from hvdlite.launch.environment import Identity
from hvdlite.launch.environment.identity import OverMpi

if TYPE_CHECKING:
    from hvdlite.job.membership import Membership
    from hvdlite.rendezvous.addresses import Address

_SERIALIZED = 2


class Arrival(NamedTuple):
    """`communicator`: the argument of init(). `place`: the address of the job's store and the
    secret; None for a process that is alone. `mpi`: what the core is told about MPI; None if the
    program does not ask for MPI. `prefix`: of the job's keys there. `member`: in an elastic job.
    `generation`: what the core proves to the others, where the program chooses the members."""

    me: Identity
    communicator: Any
    place: tuple[Address, bytes] | None
    mpi: dict[str, Any] | None
    prefix: str = ""
    member: Membership | None = None
    generation: tuple[int, str, int, int] | None = None

    @property
    def proof(self) -> tuple[int, str, int, int] | None:
        return self.generation if self.member is None else self.member.proof


def arrive(
    comm: Any, asked: environment.InitArguments, values: Mapping[str, knobs.Value]
) -> Arrival:
    """Returns when this rank knows rank 0's address. Raises ValueError or RuntimeError if an
    argument or a launcher's variable is wrong, and HorovodInternalError or TimeoutError if the
    ranks could not meet."""
    if os.environ.get("HVDLITE_MEMBER"):
        from hvdlite.job import membership

        if membership.is_asked_for(os.environ):
            return _arrive_as_member(comm, asked)
    me = _identity(comm, asked)
    communicator = comm if is_communicator(comm) else None
    place = _meet(me, communicator, values)
    prefix = me.namespace and f"{me.namespace}/"
    return Arrival(me, communicator, place, _mpi(me, communicator, place, values), prefix)


def _arrive_as_member(comm: Any, asked: environment.InitArguments) -> Arrival:
    """Returns when the driver has a place for this process.

    Elastic jobs do not use MPI, whose world is fixed.
    """
    from hvdlite.job import membership

    if comm or asked != environment.InitArguments():
        raise ValueError(
            "init(comm=..., rank=..., size=...) is not allowed in an elastic job, whose driver "
            "numbers the ranks: call hvd.init() without them."
        )
    started = environment.discover(os.environ)
    member = membership.become(started)
    assignment = member.arrive()
    if assignment is None:
        alone = started._replace(rank=0, size=1, local_rank=None, local_size=None)
        return Arrival(alone, None, None, None, member=member)
    me = started._replace(**vars(member.numbers))
    place = None if me.size == 1 else started.place
    return Arrival(me, None, place, None, f"g{assignment.generation}/", member)


def all_are_here() -> None:
    """Called when the native core has met all ranks."""
    if "hvdlite.job.bootstrap" in sys.modules:
        from hvdlite.job import bootstrap

        bootstrap.all_are_here()


def warn_of_few_threads(arrived: Arrival, values: Mapping[str, knobs.Value]) -> None:
    """Warns once if the job uses an MPI that allows one thread at a time. hvdlite's own threads
    keep to that, but hvdlite cannot stop the program's."""
    if (
        arrived.mpi is None
        or arrived.mpi["threads"] != _SERIALIZED
        or values["mpi_threads_disable"]
        or arrived.me.rank != 0
    ):
        return
    _warn(
        "MPI was initialised with MPI_THREAD_SERIALIZED, one thread at a time: the program must "
        "not call MPI while operations of hvdlite are under way. `mpi4py.rc.thread_level = "
        "'multiple'` before `from mpi4py import MPI` allows it; HVDLITE_MPI_THREADS_DISABLE=1 says "
        "that the program keeps to it."
    )


def warn_of_unknown_variables(me: Identity) -> None:
    """Warns of variables that the user has probably misspelt. hvdliterun has done so before it
    started its ranks."""
    if me.rank == 0 and not me.at_launchers_store:
        from hvdlite.base import variables

        for sentence in variables.warnings(os.environ):
            _warn(sentence)


def _warn(sentence: str) -> None:
    import logging  # init() seldom warns

    logging.getLogger("hvdlite").warning("%s", sentence)


def _identity(comm: Any, asked: environment.InitArguments) -> Identity:
    started = environment.discover(os.environ, asked)
    if comm is None or (isinstance(comm, (list, tuple)) and not comm):
        return started
    if asked.rank is not None:
        raise ValueError(
            "init(comm=..., rank=..., size=...) is not allowed: both say which ranks make the job; "
            "give one."
        )
    return _of_communicator(comm, started) if is_communicator(comm) else _of_ranks(comm, started)


# ---- init(comm=...): which of the started processes make the job, and their ranks


def _of_communicator(comm: Any, started: Identity) -> Identity:
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
    return _renumbered(started, comm.Get_rank(), comm.Get_size(), here, rendezvous_method=OverMpi())


def _of_ranks(ranks: Any, started: Identity) -> Identity:
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
    return _renumbered(started, part.index(started.rank), len(part), started.on_one_host, part=part)


def _renumbered(started: Identity, rank: int, size: int, here: bool, **what: Any) -> Identity:
    local = (rank, size) if here else (None, None)
    return started._replace(
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


# ---- RendezvousMethod


def _meet(
    me: Identity, communicator: Any, values: Mapping[str, knobs.Value]
) -> tuple[Address, bytes] | None:
    if me.size == 1:
        if (
            me.whole is None
            and "mpi4py.MPI" in sys.modules
            and not environment.allows_singleton(os.environ)
        ):
            from hvdlite.job import bootstrap

            bootstrap.refuse_to_be_alone()
        return None
    if me.place is not None:
        return me.place
    from hvdlite.job import bootstrap

    request = _mpi_request(communicator, values)
    access = bootstrap.meet(
        me, str(values["network_interfaces"]), float(values["start_timeout_seconds"]), request
    )
    return None if access is None else (access.address, access.secret)


def _mpi(
    me: Identity,
    communicator: Any,
    place: tuple[Address, bytes] | None,
    values: Mapping[str, knobs.Value],
) -> dict[str, Any] | None:
    operations, pretends = str(values["cpu_operations"]), bool(values["host_id"])
    if not environment.asks_about_mpi(me, operations, pretends, _known_to_mpi(communicator)):
        return None
    from hvdlite.job.bootstrap import StoreAccess, mpi

    met = (
        None if place is None or isinstance(me.rendezvous_method, OverMpi) else StoreAccess(*place)
    )
    seconds = float(values["start_timeout_seconds"])
    return mpi.gather(me, _mpi_request(communicator, values), met, _core.mpi_names(), seconds)


def _known_to_mpi(communicator: Any) -> tuple[int, int] | None:
    """Returns this process's rank and size by the program's own MPI."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return None
    said = mpi.COMM_WORLD if communicator is None else communicator
    return said.Get_rank(), said.Get_size()


def _mpi_request(communicator: Any, values: Mapping[str, knobs.Value]) -> Any:
    from hvdlite.job.bootstrap import MpiRequest

    return MpiRequest(communicator, bool(values["mpi_threads_disable"]))
