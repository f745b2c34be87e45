"""What this rank tells the native core about its MPI: `_core.init(mpi=...)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.job.bootstrap import mpi_agreement, mpi_library
from hvdlite.job.bootstrap.mpi_library import LEVELS, Wish
from hvdlite.job.bootstrap.offer import Place
from hvdlite.launch.environment import Identity


def gather(
    me: Identity, wish: Wish, place: Place | None, names: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Returns the MPI with the handles of these names, or the sentence why tensors cannot go over
    it. All ranks get the sentence, so it is not an exception.

    `place`: where the ranks have met without MPI. Raises RuntimeError if the MPI belongs to another
    job, and TimeoutError if not all ranks have come.
    """
    try:
        if place is not None:
            _find_everywhere(me, place, seconds)
        mpi = mpi_library.load(me, wish)
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
        "communicator": _number(mpi._handleof(mpi_library.communicator_of(me, mpi, wish, seconds))),
        "library": mpi_library.name_of(mpi),
        "threads": mpi_library.threads(mpi),
    }


def _find_everywhere(me: Identity, place: Place, seconds: float) -> None:
    """Raises ConnectionError if not all ranks have an MPI."""
    try:
        mpi_library.find()
        here = ""
    except ConnectionError as error:
        here = str(error)
    obstacle = mpi_agreement.obstacle(me, place, here, seconds)
    if here or obstacle:
        raise ConnectionError(here or obstacle)


def _number(handle: int) -> int:
    """Returns the handle as the core takes it, with a sign. MPICH's communicators are negative
    ints, which mpi4py shows as large numbers."""
    return handle - (1 << 64) if handle >= 1 << 63 else handle


def _require_threads(mpi: Any) -> None:
    level = LEVELS[mpi_library.threads(mpi)]
    if level in ("single", "funneled"):
        raise ConnectionError(
            f"MPI was initialised with MPI_THREAD_{level.upper()}, but hvdlite calls it from a "
            "thread of its own: put "
            "`import mpi4py; mpi4py.rc.thread_level = 'multiple'` before `from mpi4py import MPI`"
        )
