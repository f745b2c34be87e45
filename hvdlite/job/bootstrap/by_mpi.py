"""MPI, for one broadcast."""

from __future__ import annotations

import sys
import time
from typing import Any

from hvdlite.job.bootstrap import mpi_library
from hvdlite.job.bootstrap.mpi_library import Wish
from hvdlite.job.bootstrap.offer import MAX_BYTES, Place
from hvdlite.launch.environment import ALLOW_SINGLETON, Identity


def say(me: Identity, wish: Wish, text: bytes | None, seconds: float) -> bytes:
    """A channel."""
    deadline = time.monotonic() + seconds
    try:
        mpi = mpi_library.load(me, wish)
    except ConnectionError as error:
        raise ConnectionError(
            f"the ranks meet through MPI: {error}; or start the program with hvdliterun, whose "
            "ranks meet without MPI"
        ) from None
    communicator = mpi_library.communicator_of(me, mpi, wish, seconds)
    # A single message of fixed length, so there is only one wait.
    buffer = bytearray((text or b"").ljust(MAX_BYTES))
    request = communicator.Ibcast([buffer, mpi.BYTE], root=0)
    mpi_library.complete([request], max(0.1, deadline - time.monotonic()))
    return bytes(buffer).rstrip()


def recall(communicator: Any) -> Place | None:
    """Returns where the ranks of this communicator have met before."""
    place: Place | None = None if _keyval is None else communicator.Get_attr(_keyval)
    return place


def remember(communicator: Any, place: Place) -> None:
    """Attaches the place to the communicator. MPI forgets it with the communicator, on all ranks
    alike."""
    global _keyval
    if _keyval is None:
        _keyval = type(communicator).Create_keyval()
    communicator.Set_attr(_keyval, place)


_keyval: int | None = None


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
