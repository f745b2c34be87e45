"""The MPI of this process: mpi4py's, loaded, initialised as hvdlite needs it, and compared with the
launcher.

Either the program or hvdlite may initialise MPI. MPI ends with the process: mpi4py ends it after
hvdlite has left the job. It cannot be initialised a second time, and the program may need it
longer.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import util
from typing import Any

from hvdlite.job.bootstrap import mpi_end
from hvdlite.launch.environment import Identity
from hvdlite.launch.environment.identity import OverMpi
from hvdlite.launch.environment.sources import OPEN_MPI

LEVELS = ("single", "funneled", "serialized", "multiple")
_FINALISED = (
    "MPI was finalised before init(): call init() first, and MPI.Finalize() at the end, if at all"
)
_PAUSE = 0.001
# The tag of the messages by which the ranks of a part find that all have come: "hv" as letters.
_TAG = 0x6876


@dataclass(frozen=True)
class Wish:
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


def load(me: Identity, wish: Wish) -> Any:
    """Returns mpi4py.MPI, initialised. Waits in MPI until all started ranks do this.
    ConnectionError says why there is no MPI. RuntimeError: the MPI belongs to another job."""
    _refuse_strangers(me, find())
    mpi = _imported(wish.serialized)
    if not mpi.Is_initialized():  # the program has told mpi4py not to initialise MPI
        mpi.Init_thread(_level(mpi, wish.serialized))
        atexit.register(_finalise, mpi)
    elif mpi.Query_thread() < mpi.THREAD_SERIALIZED and not mpi.Is_thread_main():
        raise ConnectionError(
            "MPI was initialised for one thread only, and init() was called in "
            f"{threading.current_thread().name!r}: call init() where MPI was initialised"
        )
    _compare(me, mpi, wish.communicator)
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


def communicator_of(me: Identity, mpi: Any, wish: Wish, seconds: float) -> Any:
    """Returns the communicator whose ranks are those of the job. Raises TimeoutError if some ranks
    of a part have not called init()."""
    if wish.communicator is not None:
        return wish.communicator
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
