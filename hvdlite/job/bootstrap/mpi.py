"""The MPI of this process: mpi4py's, loaded, initialised as hvdlite needs it, and compared with the
launcher. It serves as a channel, and its facts go to the native core.

Either the program or hvdlite may initialise MPI. MPI ends with the process: mpi4py ends it after
hvdlite has left the job. It cannot be initialised a second time, and the program may need it
longer.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import util
from typing import Any

from hvdlite.job.bootstrap import mpi_end
from hvdlite.job.bootstrap.offer import MAX_BYTES, StoreAccess
from hvdlite.launch.environment import ALLOW_SINGLETON, Identity
from hvdlite.launch.environment.identity import OverMpi
from hvdlite.launch.environment.sources import OPEN_MPI
from hvdlite.rendezvous import StoreClient

LEVELS = ("single", "funneled", "serialized", "multiple")
_FINALISED = (
    "MPI was finalised before init(): call init() first, and MPI.Finalize() at the end, if at all"
)
_PAUSE = 0.001
# The tag of the messages by which the ranks of a part find that all have come: "hv" as letters.
_TAG = 0x6876


# init() may be called again, and then uses new keys.
_attempts = itertools.count()
_keyval: int | None = None


@dataclass(frozen=True)
class MpiRequest:
    """`communicator`: the argument of init(), whose ranks make the job. `serialized`: ask MPI for
    no more than MPI_THREAD_SERIALIZED."""

    communicator: Any = None
    serialized: bool = False


#: mpi4py.MPI, once load() has returned it
loaded: Any = None


def find() -> str:
    """Returns the library that mpi4py has loaded or would load, as `Open MPI v5.0.11`. Initialises
    nothing. ConnectionError says why there is none."""
    there = sys.modules.get("mpi4py.MPI")
    if there is not None:
        if there.Is_finalized():
            raise ConnectionError(_FINALISED)
        return name_of(there)
    try:
        spec = util.find_spec("mpi4py.MPI")  # searches for the library
        if spec is None or spec.origin is None:
            raise ImportError("No module named 'mpi4py.MPI'")
        text, length = ctypes.create_string_buffer(1 << 16), ctypes.c_int()
        ctypes.CDLL(spec.origin).MPI_Get_library_version(text, ctypes.byref(length))
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        raise ConnectionError(_missing(error)) from None
    return _first_words(text.value.decode(errors="replace"))


def load(me: Identity, request: MpiRequest) -> Any:
    """Returns mpi4py.MPI, initialised. Waits in MPI until all started ranks do this.
    ConnectionError says why there is no MPI. RuntimeError: the MPI belongs to another job."""
    _refuse_strangers(me, find())
    mpi = _imported(request.serialized)
    if not mpi.Is_initialized():  # the program has told mpi4py not to initialise MPI
        mpi.Init_thread(_level(mpi, request.serialized))
        atexit.register(_finalise, mpi)
    elif mpi.Query_thread() < mpi.THREAD_SERIALIZED and not mpi.Is_thread_main():
        raise ConnectionError(
            "MPI was initialised for one thread only, and init() was called in "
            f"{threading.current_thread().name!r}: call init() where MPI was initialised"
        )
    _compare(me, mpi, request.communicator)
    global loaded
    loaded = mpi
    return mpi


def threads(mpi: Any) -> int:
    """Returns MPI's thread level, from 0 (single) to 3 (multiple). MPIs use numbers of their
    own."""
    return [getattr(mpi, f"THREAD_{level.upper()}") for level in LEVELS].index(mpi.Query_thread())


def name_of(mpi: Any) -> str:
    """Returns `Open MPI v5.0.11`."""
    return _first_words(str(mpi.Get_library_version()))


def communicator_of(me: Identity, mpi: Any, request: MpiRequest, seconds: float) -> Any:
    """Returns the communicator whose ranks are those of the job. Raises TimeoutError if some ranks
    of a part have not called init()."""
    if request.communicator is not None:
        return request.communicator
    if not me.part:
        return mpi.COMM_WORLD
    if me.part not in _parts:
        _wait_for_all(me, mpi, seconds)  # the next call never returns while a rank is missing
        group = mpi.COMM_WORLD.Get_group().Incl(me.part)
        _parts[me.part] = mpi.COMM_WORLD.Create_group(group, _TAG)
    return _parts[me.part]


_parts: dict[tuple[int, ...], Any] = {}


def complete(requests: Sequence[Any], seconds: float) -> None:
    """Waits for all requests. Wait() would delay Ctrl-C and has no deadline."""
    deadline = time.monotonic() + seconds
    while not all([request.Test() for request in requests]):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"no word through MPI within {seconds:.0f} s: not all ranks have called init()"
            )
        time.sleep(_PAUSE)


def _wait_for_all(me: Identity, mpi: Any, seconds: float) -> None:
    world, first, others = mpi.COMM_WORLD, me.part[0], me.part[1:]
    if me.rank == 0:
        complete([world.Irecv([bytearray(1), mpi.BYTE], other, _TAG) for other in others], seconds)
        complete([world.Isend([b"!", mpi.BYTE], other, _TAG) for other in others], seconds)
    else:
        said = world.Isend([b"!", mpi.BYTE], first, _TAG)
        complete([said, world.Irecv([bytearray(1), mpi.BYTE], first, _TAG)], seconds)


def _imported(serialized: bool) -> Any:
    try:
        import mpi4py

        wanted = mpi4py.rc.thread_level
        mpi4py.rc.thread_level = _allowed(wanted, serialized)
        try:
            from mpi4py import MPI  # initialises MPI
        finally:
            mpi4py.rc.thread_level = wanted
    except (ImportError, RuntimeError) as error:
        raise ConnectionError(_missing(error)) from None
    return MPI


def _missing(error: Exception) -> str:
    return (
        f"mpi4py cannot be imported ({' '.join(str(error).split())[:200]}): `pip install "
        "'.[mpi]'` in a clone of hvdlite brings it with Open MPI, `pip install mpi4py` is for an "
        "MPI that is installed here"
    )


def _first_words(version: str) -> str:
    return " ".join(version.strip().splitlines()[0].split(",")[0].rstrip("\0").split())


def _level(mpi: Any, serialized: bool) -> int:
    """Returns the level that the program has told mpi4py to ask for, but no more than is allowed
    here."""
    import mpi4py

    wanted = mpi4py.rc.thread_level if mpi4py.rc.threads else "single"
    return int(getattr(mpi, f"THREAD_{_allowed(wanted, serialized).upper()}"))


def _allowed(level: str, serialized: bool) -> str:
    return "serialized" if serialized and level == "multiple" else level


def _finalise(mpi: Any) -> None:
    if not mpi.Is_finalized():
        mpi_end.finalise(mpi)


def _refuse_strangers(me: Identity, library: str) -> None:
    """Raises an error if MPICH's library is under Open MPI's mpirun. It would end the process with
    a message that does not help."""
    whole = me.whole or me
    if whole.launcher == OPEN_MPI.launcher and library.startswith(("MPICH", "Intel", "MVAPICH")):
        raise RuntimeError(
            f"{whole.launcher} has started this process as rank {whole.rank} of {whole.size}, "
            "which another MPI cannot join. " + _remedy(me, library)
        )


def _compare(me: Identity, mpi: Any, communicator: Any) -> None:
    """Raises an error if mpirun and MPI library do not belong together. Each process then believes
    that it is alone."""
    whole = me.whole or me
    rank, size = mpi.COMM_WORLD.Get_rank(), mpi.COMM_WORLD.Get_size()
    # With a communicator, the program says which rank is which. If no launcher is known, it also
    # says how many there are.
    same = size == whole.size and (rank == whole.rank or communicator is not None)
    if same or (communicator is not None and not whole.launcher):
        return
    raise RuntimeError(
        f"{whole.launcher} has started this process as rank {whole.rank} of {whole.size}, but MPI "
        f"says that it is rank {rank} of {size}. " + _remedy(me, name_of(mpi))
    )


def _remedy(me: Identity, library: str) -> str:
    without = "start the program with hvdliterun"
    if not isinstance(me.rendezvous_method, OverMpi):
        without = "leave MPI out (HVDLITE_CPU_OPERATIONS=net)"
    if not (me.whole or me).by_mpi:
        return (
            "MPI connects only ranks that its own launcher has started (or srun, if it has that "
            f"MPI's plugin). Use mpirun or `hvdliterun --mpi`, or {without}."
        )
    return (
        f"mpi4py loads {library}: that is not the MPI whose mpirun was used. Use the mpirun of "
        "that MPI, or have mpi4py "
        f"load the other one (MPI4PY_MPIABI, LD_LIBRARY_PATH), or {without}."
    )


# ---- A channel


def say(me: Identity, request: MpiRequest, text: bytes | None, seconds: float) -> bytes:
    """A channel by one broadcast of MPI."""
    deadline = time.monotonic() + seconds
    try:
        mpi = load(me, request)
    except ConnectionError as error:
        raise ConnectionError(
            f"the ranks meet through MPI: {error}; or start the program with hvdliterun, whose "
            "ranks meet without MPI"
        ) from None
    communicator = communicator_of(me, mpi, request, seconds)
    # A single message of fixed length, so there is only one wait.
    buffer = bytearray((text or b"").ljust(MAX_BYTES))
    broadcast = communicator.Ibcast([buffer, mpi.BYTE], root=0)
    complete([broadcast], max(0.1, deadline - time.monotonic()))
    return bytes(buffer).rstrip()


def recall(communicator: Any) -> StoreAccess | None:
    """Returns where the ranks of this communicator have met before."""
    place: StoreAccess | None = None if _keyval is None else communicator.Get_attr(_keyval)
    return place


def remember(communicator: Any, place: StoreAccess) -> None:
    """Attaches the place to the communicator. MPI forgets it with the communicator, on all ranks
    alike."""
    global _keyval
    if _keyval is None:
        _keyval = type(communicator).Create_keyval()
    communicator.Set_attr(_keyval, place)


# ---- What the native core is told


def gather(
    me: Identity,
    request: MpiRequest,
    place: StoreAccess | None,
    names: Sequence[str],
    seconds: float,
) -> dict[str, Any]:
    """Returns what this rank tells the native core about its MPI, `_core.init(mpi=...)`: the MPI
    with the handles of these names, or the sentence why tensors cannot go over it. All ranks get
    the sentence, so it is not an exception.

    `place`: where the ranks have met without MPI. Raises RuntimeError if the MPI belongs to another
    job, and TimeoutError if not all ranks have come.
    """
    try:
        if place is not None:
            _find_everywhere(me, place, seconds)
        mpi = load(me, request)
        _require_threads(mpi)
        handles = {name: _number(mpi._handleof(getattr(mpi, name))) for name in names}
    except ConnectionError as error:
        return {"absent": str(error)}
    except AttributeError as error:  # mpi4py 3 lacks some
        return {"absent": f"this mpi4py is too old ({error}): pip install 'mpi4py>=4.1'"}
    return {
        "module": mpi.__file__,
        "handles": handles,
        "in_place": int(mpi.IN_PLACE),
        "communicator": _number(mpi._handleof(communicator_of(me, mpi, request, seconds))),
        "library": name_of(mpi),
        "threads": threads(mpi),
    }


def _find_everywhere(me: Identity, place: StoreAccess, seconds: float) -> None:
    """Raises ConnectionError if not all ranks have an MPI."""
    try:
        find()
        here = ""
    except ConnectionError as error:
        here = str(error)
    obstacle = _obstacle(me, place, here, seconds)
    if here or obstacle:
        raise ConnectionError(here or obstacle)


def _number(handle: int) -> int:
    """Returns the handle as the core takes it, with a sign. MPICH's communicators are negative
    ints, which mpi4py shows as large numbers."""
    return handle - (1 << 64) if handle >= 1 << 63 else handle


def _require_threads(mpi: Any) -> None:
    level = LEVELS[threads(mpi)]
    if level in ("single", "funneled"):
        raise ConnectionError(
            f"MPI was initialised with MPI_THREAD_{level.upper()}, but hvdlite calls it from a "
            "thread of its own: put "
            "`import mpi4py; mpi4py.rc.thread_level = 'multiple'` before `from mpi4py import MPI`"
        )


def _obstacle(me: Identity, place: StoreAccess, here: str, seconds: float) -> str:
    """Returns why not all ranks can initialise MPI, the same text on all of them; empty: they can.
    They ask at the store where they have met without MPI, before one of them initialises it:
    MPI_Init waits for every process that the launcher has started, so a rank that cannot come would
    leave the others there for ever.

    `here`: why this rank cannot. Rank 0 waits for half of the time, because the others wait for its
    answer. Raises TimeoutError if the answer has not come.
    """
    key = f"{me.namespace}mpi/{next(_attempts)}"
    with StoreClient(place.address, place.secret, seconds) as client:
        client.set(f"{key}/{me.rank}", here.encode())
        if me.rank == 0:
            client.set(f"{key}/verdict", _verdict(client, key, me.size, seconds / 2).encode())
        try:
            return client.get(f"{key}/verdict", seconds).decode()
        except TimeoutError:
            raise TimeoutError(
                f"rank 0 has not asked about MPI within {seconds:.0f} s: it has not called init(), "
                "or has another "
                "HVDLITE_CPU_OPERATIONS (HVDLITE_START_TIMEOUT sets how long to wait)"
            ) from None


def _verdict(client: StoreClient, key: str, size: int, seconds: float) -> str:
    try:
        said = client.collect(key, size, seconds)
    except TimeoutError:
        return f"not all ranks have asked about MPI within {seconds:.0f} s"
    for rank, why in enumerate(said):
        if why:
            return f"rank {rank} cannot use it: {why.decode()}"
    return ""


# ---- A program with an MPI of its own


def refuse_to_be_alone() -> None:
    """Raises RuntimeError if the program's own MPI has several ranks, although no launcher's
    variable is set."""
    mpi = sys.modules.get("mpi4py.MPI")
    if (
        mpi is None
        or not mpi.Is_initialized()
        or mpi.Is_finalized()
        or mpi.COMM_WORLD.Get_size() == 1
    ):
        return
    raise RuntimeError(
        f"MPI says that there are {mpi.COMM_WORLD.Get_size()} processes, but hvdlite knows none "
        "of their launcher's variables, so each of them would train alone. Pass rank=, size= and "
        "rendezvous= to init(), or start the program with hvdliterun. If this process is meant to "
        f"be alone, set {ALLOW_SINGLETON}=1."
    )
