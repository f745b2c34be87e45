"""MPI, for one broadcast: what carries the tensors afterwards is not MPI.

It does not matter who has initialised MPI, the program or this. It ends with the process: mpi4py sees to that after hvdlite has
left the job, because MPI cannot be initialised a second time and the program may want it.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from typing import Any

from hvdlite.bootstrap.offer import MAX_BYTES
from hvdlite.launch.environment import ALLOW_SINGLETON, Identity

_PAUSE = 0.001


def say(me: Identity, text: bytes | None, seconds: float) -> bytes:
    """A channel."""
    mpi = _initialised(me)
    world = mpi.COMM_WORLD
    _compare(me, mpi)
    deadline = time.monotonic() + seconds
    # One message of one length, so that there is one wait.
    buffer = bytearray((text or b"").ljust(MAX_BYTES))
    request = world.Ibcast([buffer, mpi.BYTE], root=0)
    while not request.Test():  # not Wait(), which would hold up Ctrl-C and has no end
        if time.monotonic() > deadline:
            raise TimeoutError(f"no broadcast of MPI within {seconds:.0f} s: not all ranks have called init()")
        time.sleep(_PAUSE)
    return bytes(buffer).rstrip()


def refuse_to_be_alone() -> None:
    """RuntimeError: the program's own MPI knows of others, although no variable of a launcher does."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized() or mpi.COMM_WORLD.Get_size() == 1:
        return
    raise RuntimeError(
        f"MPI says that there are {mpi.COMM_WORLD.Get_size()} processes, but no variable by which hvdlite recognises a "
        f"launcher is set: each of them would train alone. Pass rank=, size= and rendezvous= to init(), or start the program "
        f"with hvdliterun; if this process is meant to be alone, set {ALLOW_SINGLETON}=1."
    )


def _initialised(me: Identity) -> Any:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: it finds no MPI library
        raise ConnectionError(
            f"ranks that {me.launcher} has started meet through mpi4py, which cannot be imported: {error}. `pip install "
            "mpi4py` for the MPI whose mpirun this is; or start the program with hvdliterun, which needs no MPI"
        ) from None
    if MPI.Is_finalized():
        raise ConnectionError(
            "MPI was finalised before init(), and it is needed for the ranks to meet: call init() first"
        )
    if not MPI.Is_initialized():  # the program has told mpi4py to leave that to others
        MPI.Init_thread()
        atexit.register(_finalise, MPI)
    elif MPI.Query_thread() < MPI.THREAD_SERIALIZED and not MPI.Is_thread_main():
        raise ConnectionError(
            f"MPI was initialised for one thread only, and init() was called in {threading.current_thread().name!r}: "
            "call init() where MPI was initialised"
        )
    return MPI


def _finalise(mpi: Any) -> None:
    if not mpi.Is_finalized():
        mpi.Finalize()


def _compare(me: Identity, mpi: Any) -> None:
    """Each process of a job whose mpirun and MPI library do not belong together believes that it is alone."""
    rank, size = mpi.COMM_WORLD.Get_rank(), mpi.COMM_WORLD.Get_size()
    if (rank, size) == (me.rank, me.size):
        return
    library = mpi.Get_library_version().strip().splitlines()[0].rstrip("\0, ")
    raise RuntimeError(
        f"{me.launcher} has started this process as rank {me.rank} of {me.size}, but MPI says that it is rank {rank} of "
        f"{size}. mpi4py has loaded {library}: that is not the MPI whose mpirun was used, or it was built without support "
        "for this launcher (Open MPI under srun needs PMIx). Use the mpirun of that MPI, or have mpi4py load the other "
        "one (MPI4PY_MPIABI, LD_LIBRARY_PATH), or start the program with hvdliterun."
    )
