"""The end of a process whose job uses MPI, even if only to meet.

hvdlite leaves the job before MPI ends. mpi4py ends MPI when the interpreter has ended. This also
handles programs that call MPI.Finalize() themselves, before hvd.shutdown(). In a failed job,
MPI_Finalize may wait for dead ranks for ever. MPI_Abort takes its place then, after all output of
Python and hvdlite.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

# MPI_Abort ends the other ranks as well. They get this long to print what they know.
_LAST_WORDS_SECONDS = 1.0
_EXIT_CODE = 1

_keyval: int | None = None
_failure = ""


def begin(mpi: Any, leave: Callable[[], None]) -> None:
    """A job has begun. `mpi` is mpi4py.MPI, or None if the process has not loaded it.

    From now on MPI_Finalize first calls `leave`, which must do nothing if the process has left
    already.
    """
    global _keyval
    if mpi is None:
        return
    note(mpi, "")
    if _keyval is not None:
        return

    def before_finalize(*_: object) -> None:
        leave()
        if _failure:
            print(
                "hvdlite: this process ends by MPI_Abort, because MPI_Finalize would wait for "
                f"lost ranks: {_failure}",
                file=sys.stderr,
            )
            _abort(mpi)

    # MPI first deletes what is attached to COMM_SELF.
    _keyval = mpi.Comm.Create_keyval(delete_fn=before_finalize)
    mpi.COMM_SELF.Set_attr(_keyval, True)


def finalise(mpi: Any) -> None:
    """Finalises MPI at exit, if mpi4py does not."""
    if _failure:
        _abort(mpi)
    mpi.Finalize()


def _abort(mpi: Any) -> None:
    last_words()
    mpi.COMM_WORLD.Abort(_EXIT_CODE)


def note(mpi: Any, failure: str) -> None:
    """Stores why this rank or the job has failed. Empty: a new job has begun."""
    global _failure
    if mpi is None or mpi.Is_finalized():
        return
    _failure = failure
    # As `python -m mpi4py` does for a failed program: mpi4py then calls MPI_Abort instead of
    # MPI_Finalize.
    mpi._set_abort_status(_EXIT_CODE if failure else 0)


def last_words() -> None:
    """Called at exit, after all output."""
    if _failure:
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(_LAST_WORDS_SECONDS)
