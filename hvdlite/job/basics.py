"""init and shutdown, and this process's place in the job."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import hvdlite
from hvdlite import _core
from hvdlite.base import knobs
from hvdlite.core import engine, handles, plans
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.exceptions import HorovodInternalError, Loss
from hvdlite.job import frames, libraries, where
from hvdlite.job import process_sets as registration
from hvdlite.job.arrival import (
    Arrival,
    all_are_here,
    arrive,
    warn_of_few_threads,
    warn_of_unknown_variables,
)
from hvdlite.launch import environment
from hvdlite.rendezvous.addresses import join_address

if TYPE_CHECKING:
    from hvdlite.job.membership import Membership
    from hvdlite.launch.environment.identity import Identity
    from hvdlite.rendezvous import StoreClient
    from hvdlite.rendezvous.documents import RankNumbers

__all__ = [
    "cross_rank", "cross_size", "init", "is_homogeneous", "is_initialized", "local_rank",
    "local_size", "rank", "shutdown", "size",
]  # fmt: skip

# How this process gets to know its place in the job; of the knobs.
Arrives = Callable[[Mapping[str, knobs.Value]], Arrival]

_lock = threading.Lock()
_incarnation = 0  # how often this process has joined a job
_met_over_mpi = False
_store: JobStore | None = None
_told: RankNumbers | None = (
    None  # in an elastic job: this process's numbers as the driver says them
)
_hooks_installed = False
_when_joined: list[Callable[[], object]] = []

# At exit the peers get this long to finish operations that need this rank. A job that hangs must
# still end.
_EXIT_TIMEOUT = 10.0


def init(
    comm: Any = None,
    process_sets: Sequence[ProcessSet | Sequence[int]] | str | None = None,
    *,
    rank: int | None = None,
    size: int | None = None,
    rendezvous: str | None = None,
    secret: str | bytes | None = None,
) -> None:
    """Joins the job that the launcher has started, and waits for its other ranks.

    The launcher may be hvdliterun, horovodrun, torchrun, an MPI's mpirun, srun or jsrun
    (docs/guides/launching.md). Without a launcher, the process is a job of its own with rank 0 and
    size 1. A second call only registers the given process sets.

    `process_sets` lists sets that exist from the start, in the same order on all ranks. `comm`
    makes a job of some of the processes. It is a communicator of mpi4py, whose ranks become the
    job's ranks, or a list of the launcher's ranks, in which the position becomes the rank. All of
    these processes call init() with the same `comm`, and no other process does.

    If you start the processes yourself, pass `rank`, `size` and `rendezvous`, "host:port", an
    address of rank 0's host with a free port. `secret`, 64 hex digits or 32 bytes, is known to the
    ranks of this job only.
    """
    sets: list[ProcessSet] = []
    if process_sets is not None and not isinstance(process_sets, str):
        sets = [s if isinstance(s, ProcessSet) else ProcessSet(s) for s in process_sets]
    elif isinstance(process_sets, str) and process_sets.lower() != "dynamic":
        raise ValueError(
            f"process_sets={process_sets!r} is not allowed: pass a list of process sets, or "
            "'dynamic'"
        )
    asked = environment.InitArguments(rank, size, rendezvous, secret)
    _join(lambda values: arrive(comm, asked, values))
    registration.register_all(sets)


def join(arrived: Arrival) -> None:
    """Joins a job that the program has chosen, in place of init()."""
    _join(lambda values: arrived)


def _join(arrives: Arrives) -> None:
    """Does nothing if this process is in a job."""
    global _incarnation, _met_over_mpi, _store
    with _lock:
        joins = not _core.is_initialized()
        if joins:
            _install_hooks()
            values = knobs.resolve(os.environ)
            texts = {
                field: _text(value) for field, value in values.items() if knobs.by_field(field).core
            }
            texts["autotune_keep"] = kept_by_autotuning(os.environ)
            texts["nccl_wheel"] = texts["nccl_wheel"] or libraries.nccl_wheel()
            _core.release_all()  # handles of the job before, which nothing waits for any more
            arrived = _met(arrives, values, texts)
            identity, place = arrived.me, arrived.place
            all_are_here()
            _met_over_mpi = environment.meets_over_mpi(identity, str(values["cpu_operations"]))
            _incarnation += 1
            _store = None if place is None else JobStore(place, arrived.prefix)
            registration.begin_with_communicator(arrived.communicator, identity.part)
            _begin_with_mpi()
            where.start(_bundle_writer(arrived, values))
            _say_where_hosts_differ(identity, values)
            if _incarnation == 1:
                warn_of_unknown_variables(identity)
                if _core.uses_mpi():
                    warn_of_few_threads(arrived, values)
            if not warms_up():  # a newcomer has no rank of its own yet
                _start_pulse(identity, place, values)
        global_process_set.process_set_id = 0
        global_process_set.ranks = _core.process_set_ranks(0)
    if joins:
        for function in _when_joined:
            function()


def _met(arrives: Arrives, values: Mapping[str, knobs.Value], texts: dict[str, str]) -> Arrival:
    """Returns when the engine is up.

    A member of an elastic job tries again in the next generation if another member dies.
    """
    while True:
        arrived = arrives(values)
        try:
            _bring_up(arrived, texts)
        except HorovodInternalError as error:
            if arrived.member is None or not error.retryable:
                raise
            arrived.member.has_failed(loss_of(error))
        except TimeoutError as error:
            if arrived.member is None:
                raise
            arrived.member.has_failed(loss_of(error))
        else:
            if arrived.member is not None:
                _begin_generation(arrived.member)
            return arrived


def _bring_up(arrived: Arrival, texts: dict[str, str]) -> None:
    identity, place = arrived.me, arrived.place
    _interruptibly(
        lambda: _core.init(
            rank=identity.rank,
            size=identity.size,
            store=None if place is None else join_address(*place[0]),
            store_prefix=arrived.prefix,
            secret=None if place is None else place[1].hex(),
            knobs=texts,
            process_sets=[],
            release=hvdlite.__version__,
            mpi=arrived.mpi,
            generation=arrived.proof,
        )
    )


def _begin_generation(member: Membership) -> None:
    global _told
    _told = member.numbers
    if member.generation:
        member.entered(_core.end_generation)
    else:
        engine.warm_up(True)


def shutdown(timeout: float = _EXIT_TIMEOUT) -> None:
    """Leaves the job. Operations that all ranks have submitted are still carried out. Then the
    engines of all ranks end, and other operations raise an error. The program may call init()
    again."""
    global _told, _store
    with _lock:
        _stop_pulse()
        _store = None
        _tell_mpi(_core.shutdown(timeout))
        where.stop()
        handles.forget_all()
        plans.forget_all()
        registration.forget_named()
        global_process_set.process_set_id = None
        global_process_set.ranks = None
        engine.stand_for_all(0)
        if _told is not None:
            _told = None
            registration.forget_all()
            engine.warm_up(False)


def each_time_joined(function: Callable[[], object]) -> None:
    """Has the function called each time this process has joined a job, or a generation of an
    elastic job, by init(). It must not talk to other ranks."""
    _when_joined.append(function)


def loss_of(error: Exception) -> Loss:
    """Which rank was lost, and why. The engine knows it, however the error has come here: a
    framework passes on no more than words."""
    known: Loss | None = _core.loss() or getattr(error, "loss", None)
    return known or Loss()


def warms_up() -> bool:
    """Whether this process is a newcomer of an elastic job that is not in a generation yet."""
    return engine.warms_up()


def incarnation() -> int:
    """Returns how often this process has joined a job."""
    return _incarnation


class JobStore(NamedTuple):
    """The job's store: its address with the secret, and the prefix of this job's keys."""

    place: tuple[tuple[str, int], bytes]
    prefix: str

    def connect(self) -> StoreClient:
        from hvdlite.rendezvous import StoreClient  # init() of a rank that is alone asks none

        return StoreClient(*self.place)


def job_store() -> JobStore | None:
    """Returns the store where the ranks of this job have met; None if it has one rank."""
    return _store


def met_over_mpi() -> bool:
    """Whether the ranks of this job have met through the MPI that has started them."""
    return _met_over_mpi and _core.is_initialized()


def is_initialized() -> bool:
    """True between init() and shutdown(), and in processes that are forked meanwhile.

    Those know their parent's rank, and cannot take part in collectives.
    """
    return _core.has_place()


def rank() -> int:
    """Returns this process's number among all processes of the job."""
    return _core.rank() if _told is None else _told.rank


def size() -> int:
    """Returns how many processes the job has."""
    return _core.size() if _told is None else _told.size


def local_rank() -> int:
    """Returns this process's number among those on its host; usually the index of its GPU."""
    return _core.local_rank() if _told is None else _told.local_rank


def local_size() -> int:
    """Returns how many processes of the job run on this host."""
    return _core.local_size() if _told is None else _told.local_size


def cross_rank() -> int:
    """Returns this host's number among the hosts that have a process with this local rank."""
    return _core.cross_rank() if _told is None else _told.cross_rank


def cross_size() -> int:
    """Returns how many hosts have a process with this local rank."""
    return _core.cross_size() if _told is None else _told.cross_size


def is_homogeneous() -> bool:
    """True if every host runs the same number of processes."""
    return _core.is_homogeneous()


def _begin_with_mpi() -> None:
    """If the job uses MPI and the program finalises MPI, the process leaves the job first."""
    if "hvdlite.job.bootstrap.mpi" in sys.modules:
        from hvdlite.job.bootstrap import mpi, mpi_end

        mpi_end.begin(mpi.loaded, _before_finalize)


def _before_finalize() -> None:
    _tell_mpi(_core.failure())
    if _core.uses_mpi():
        shutdown()


def _tell_mpi(failure: str) -> None:
    """After a failure, a process that has used MPI must not wait in MPI_Finalize for lost ranks."""
    if failure and "hvdlite.job.bootstrap.mpi" in sys.modules:
        from hvdlite.job.bootstrap import mpi, mpi_end

        mpi_end.note(mpi.loaded, failure)


def _bundle_writer(
    arrived: Arrival, values: Mapping[str, knobs.Value]
) -> where.BundleWriter | None:
    directory = str(values["stall_dump"])
    if not directory:
        return None
    from hvdlite.base import bundle

    place = arrived.place or arrived.me.place
    folder = bundle.folder_name(where.bundle_name(place, arrived.prefix))
    path = os.path.join(os.path.abspath(directory), folder)
    return where.BundleWriter(path, _core.rank(), _core.size(), bundle.without_secrets(values))


def _start_pulse(
    identity: Identity,
    place: tuple[tuple[str, int], bytes] | None,
    values: Mapping[str, knobs.Value],
) -> None:
    """A launcher's store has a reader, which may want reports later."""
    place, seconds = place or identity.place, float(values["monitor_seconds"])
    if place is not None and (seconds > 0 or identity.at_launchers_store):
        from hvdlite.job import pulse

        pulse.start(identity.started_as, *place, seconds, values)


def _stop_pulse() -> None:
    if "hvdlite.job.pulse" in sys.modules:
        from hvdlite.job import pulse

        pulse.stop()


def _say_where_hosts_differ(
    identity: environment.Identity, values: Mapping[str, knobs.Value]
) -> None:
    """Warns if hvd.local_rank() differs from the launcher's local rank: programs choose their GPU
    by either."""
    here = (_core.local_rank(), _core.local_size())
    if values["host_id"] or values["cpu_operations"] == "net":
        return  # the user has asked for hosts of their own
    # Open MPI 5 may number the ranks of an oversubscribed host in another order. Its count is
    # right.
    if identity.local_rank is None or identity.local_size == here[1]:
        return
    if _incarnation > 1 or here[0] != 0:
        return  # hvdlite has warned already, or the first rank of this host has
    import logging  # init() seldom warns

    logging.getLogger("hvdlite").warning(
        "%s says that rank %d is local rank %d of %d. hvdlite counts %d of the job's ranks on this "
        "host, and hvd.local_rank() is %d. Are several agents of the launcher on this host, "
        "or ranks of one host in containers? HVDLITE_HOST_ID, a different text for each, tells "
        "hosts apart.",
        identity.launcher, identity.rank, identity.local_rank, identity.local_size, here[1],
        here[0],
    )  # fmt: skip


def _interruptibly(work: Callable[[], None]) -> None:
    """Runs a native call that may block for long, so that Ctrl-C ends the wait for the call, though
    not the call itself."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="hvdlite-init", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


_TUNED = ("cycle_time", "fusion_threshold", "shm_small_bytes", "shm_chunk_bytes")


def kept_by_autotuning(environ: Mapping[str, str]) -> str:
    """Returns what HVDLITE_AUTOTUNE_KEEP names and the knobs to which the user has given a value,
    separated by commas."""
    named = str(knobs.resolve(environ)["autotune_keep"])
    return ",".join(
        filter(None, [named, *(field for field in _TUNED if knobs.is_set(field, environ))])
    )


def _text(value: object) -> str:
    """Returns the text that csrc/base/config.cc reads."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _install_hooks() -> None:
    global _hooks_installed
    if _hooks_installed:
        return
    _hooks_installed = True
    atexit.register(_leave)
    previous = sys.excepthook

    def tell_the_others(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        previous(kind, error, trace)
        _tell_mpi(abort_for(error, trace))

    sys.excepthook = tell_the_others


def abort_for(error: BaseException, trace: TracebackType | None) -> str:
    """Ends the job at once, because an exception ends the program of this rank, or its function in
    a runner whose process goes on, such as an actor of Ray. Waiting calls of the other ranks raise
    PeerLostError with the text that this returns. Does nothing else if this process is in no job.
    """
    from hvdlite.launch.last_words import in_one_line  # rarely needed

    place = frames.place_of_traceback(trace)
    what = in_one_line(error) + (f" at {place}" if place else "")
    if _core.is_initialized():
        _core.abort(what)
    return what


def _leave() -> None:
    _stop_pulse()
    if _core.is_initialized():
        _tell_mpi(_core.shutdown(_EXIT_TIMEOUT))
        # Daemon threads that waited get an error now. They must return before the interpreter ends.
        patience = time.monotonic() + 1
        while _core.threads_inside() > 0 and time.monotonic() < patience:
            time.sleep(0.0005)
    where.stop()
    if "hvdlite.job.bootstrap.mpi_end" in sys.modules:
        from hvdlite.job.bootstrap import mpi_end

        mpi_end.last_words()
