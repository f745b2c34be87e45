"""init and shutdown, and where this process stands in the job."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from hvdlite import _core, handles, knobs, where
from hvdlite.launch import environment
from hvdlite.process_sets import ProcessSet, global_process_set, register_all

__all__ = [
    "cross_rank",
    "cross_size",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
]

_log = logging.getLogger("hvdlite")
_lock = threading.Lock()
_incarnation = 0  # how often this process has joined a job
_hooks_installed = False

# At exit the peers get this long to finish what needs this rank; a job that is stuck must still be able to end.
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

    The launcher may be hvdliterun, horovodrun, torchrun, an MPI's mpirun, srun or jsrun (docs/launching.md). Without one the
    process is a job of its own, with rank 0 and size 1. A second call does nothing but register the given process sets.
    `process_sets` lists sets that exist from the start, in the same order on all ranks. `comm` is accepted for Horovod's
    sake: a list of ranks, or a communicator of mpi4py, but it has to hold all ranks of the job, in their order.

    Who starts processes in a way of their own says here which `rank` this is of how many (`size`) and where they meet:
    `rendezvous`, "host:port", is an address of rank 0's host with a free port. `secret`, 64 hex digits or 32 bytes, is the same
    for all ranks of this job and for nobody else.
    """
    global _incarnation
    sets: list[ProcessSet] = []
    if process_sets is not None and not isinstance(process_sets, str):
        sets = [s if isinstance(s, ProcessSet) else ProcessSet(s) for s in process_sets]
    elif isinstance(process_sets, str) and process_sets.lower() != "dynamic":
        raise ValueError(f"process_sets={process_sets!r} is not allowed: pass a list of process sets, or 'dynamic'")
    with _lock:
        if not _core.is_initialized():
            identity = environment.discover(os.environ, environment.Asked(rank, size, rendezvous, secret))
            _require_all_ranks(comm, identity.rank, identity.size)
            values = knobs.resolve(os.environ)
            texts = {field: _text(value) for field, value in values.items() if knobs.by_field(field).core}
            place = _meet(identity, values)
            _core.release_all()  # of the job before: nobody will ask for them any more
            _interruptibly(
                lambda: _core.init(
                    rank=identity.rank,
                    size=identity.size,
                    store=None if place is None else _host_and_port(place[0]),
                    store_prefix="",
                    secret=None if place is None else place[1].hex(),
                    knobs=texts,
                    process_sets=[],
                )
            )
            _incarnation += 1
            _install_hooks()
            where.start()
            _say_where_hosts_differ(identity, values)
            _start_pulse(identity.rank, place or identity.place, float(values["monitor_seconds"]))
        global_process_set.process_set_id = 0
        global_process_set.ranks = _core.process_set_ranks(0)
    register_all(sets)


def _require_all_ranks(comm: Any, rank: int, size: int) -> None:
    if comm is None or (isinstance(comm, (list, tuple)) and not comm):
        return
    if hasattr(comm, "Get_size"):
        whole = comm.Get_size() == size and comm.Get_rank() == rank
    else:
        whole = list(comm) == list(range(size))
    if not whole:
        raise ValueError(
            "init(comm=...) is not supported for a part of the ranks: start a job with just these, or pass process_sets=[...]"
        )


def shutdown(timeout: float = _EXIT_TIMEOUT) -> None:
    """Leaves the job. Operations that all ranks have asked for still happen; then all ranks' engines end, and what is
    outstanding elsewhere raises. init() may be called again afterwards."""
    with _lock:
        _stop_pulse()
        _core.shutdown(timeout)
        where.stop()
        handles.forget_all()
        global_process_set.process_set_id = None
        global_process_set.ranks = None


def incarnation() -> int:
    """How often this process has joined a job."""
    return _incarnation


def is_initialized() -> bool:
    """True between init() and shutdown()."""
    return _core.is_initialized()


def rank() -> int:
    """This process' number among all processes of the job."""
    return _core.rank()


def size() -> int:
    """How many processes the job has."""
    return _core.size()


def local_rank() -> int:
    """This process' number among those on its host; usually the index of its GPU."""
    return _core.local_rank()


def local_size() -> int:
    """How many processes of the job run on this host."""
    return _core.local_size()


def cross_rank() -> int:
    """This host's number among the hosts that have a process with this local rank."""
    return _core.cross_rank()


def cross_size() -> int:
    """How many hosts have a process with this local rank."""
    return _core.cross_size()


def is_homogeneous() -> bool:
    """True if every host runs the same number of processes."""
    return _core.is_homogeneous()


def _meet(identity: environment.Identity, values: Mapping[str, knobs.Value]) -> tuple[tuple[str, int], bytes] | None:
    """The address of the job's store, and the secret; None for a process that is alone, and may be."""
    # Imported only where something has to be found out: hvdliterun has said all, and its ranks start sooner.
    if identity.size == 1:
        if "mpi4py.MPI" in sys.modules and not environment.allows_singleton(os.environ):
            from hvdlite import bootstrap

            bootstrap.refuse_to_be_alone()
        return None
    if identity.place is not None:
        return identity.place
    from hvdlite import bootstrap

    place = bootstrap.meet(identity, str(values["network_interfaces"]), float(values["start_timeout_seconds"]))
    return None if place is None else (place.address, place.secret)


def _start_pulse(rank: int, place: tuple[tuple[str, int], bytes] | None, seconds: float) -> None:
    if seconds > 0 and place is not None:
        from hvdlite import pulse

        pulse.start(rank, *place, seconds)


def _stop_pulse() -> None:
    if "hvdlite.pulse" in sys.modules:
        from hvdlite import pulse

        pulse.stop()


def _say_where_hosts_differ(identity: environment.Identity, values: Mapping[str, knobs.Value]) -> None:
    """A program that takes the GPU of the launcher's local rank, and one that takes hvd.local_rank()'s, should agree."""
    here = (_core.local_rank(), _core.local_size())
    if identity.local_rank is None or (identity.local_rank, identity.local_size) == here or values["host_id"]:
        return
    if _incarnation > 1 or (here[0] != 0 and identity.local_size != here[1]):
        return  # said already, or said by the first rank of this host
    _log.warning(
        "%s says that rank %d is local rank %d of %d, but it shares its host with %d ranks of the job in all, and "
        "hvd.local_rank() is %d. Are several agents of the launcher on this host, or ranks of one host in containers? "
        "HVDLITE_HOST_ID, a different text for each, tells hosts apart.",
        identity.launcher, identity.rank, identity.local_rank, identity.local_size, here[1], here[0],
    )  # fmt: skip


def _host_and_port(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _interruptibly(work: Callable[[], None]) -> None:
    """Runs a native call that may block for long so that Ctrl-C ends the wait for it, though not the call itself."""
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


def _text(value: object) -> str:
    """As csrc/base/config.cc reads it."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _install_hooks() -> None:
    global _hooks_installed
    if _hooks_installed:
        return
    _hooks_installed = True
    atexit.register(_leave)
    previous = sys.excepthook

    def tell_the_others(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        previous(kind, error, trace)
        if _core.is_initialized() and not issubclass(kind, SystemExit):
            _core.abort(f"{kind.__name__}: {error}"[:500])

    sys.excepthook = tell_the_others


def _leave() -> None:
    _stop_pulse()
    if _core.is_initialized():
        _core.shutdown(_EXIT_TIMEOUT)
        # Daemon threads that waited have an error now; they have to be back before the interpreter goes.
        patience = time.monotonic() + 1
        while _core.threads_inside() > 0 and time.monotonic() < patience:
            time.sleep(0.0005)
    where.stop()
