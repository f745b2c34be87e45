"""The end of a process whose job uses MPI, if only to meet.

hvdlite leaves the job before MPI ends. mpi4py ends MPI when the interpreter is gone; a program that calls MPI.Finalize() itself,
before hvd.shutdown(), comes by here. And where the job has failed MPI_Finalize may wait for the dead for ever: then MPI_Abort
takes its place, when all that Python and hvdlite had to say is out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

# MPI_Abort ends the other ranks as well: they get this long to say what they know.
_LAST_WORDS_SECONDS = 1.0
_EXIT_CODE = 1

_keyval: int | None = None
_failure = ""


def begin(mpi: Any, leave: Callable[[], None]) -> None:
    """A job has begun; `mpi` is mpi4py.MPI, or None where the process has not loaded it.

    From now on MPI_Finalize starts with `leave`, which must know that there may be nothing left to leave."""
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
                f"hvdlite: MPI_Abort instead of MPI_Finalize, which would wait for lost ranks: {_failure}",
                file=sys.stderr,
            )
            _abort(mpi)

    # MPI deletes what is attached to COMM_SELF before it does anything else.
    _keyval = mpi.Comm.Create_keyval(delete_fn=before_finalize)
    mpi.COMM_SELF.Set_attr(_keyval, True)


def finalise(mpi: Any) -> None:
    """At exit, where mpi4py does not see to it."""
    if _failure:
        _abort(mpi)
    mpi.Finalize()


def _abort(mpi: Any) -> None:
    last_words()
    mpi.COMM_WORLD.Abort(_EXIT_CODE)


def note(mpi: Any, failure: str) -> None:
    """Why this rank or the job has failed; empty: a new job has begun."""
    global _failure
    if mpi is None or mpi.Is_finalized():
        return
    _failure = failure
    # As `python -m mpi4py` does for a program that has failed: mpi4py calls MPI_Abort where it would call MPI_Finalize.
    mpi._set_abort_status(_EXIT_CODE if failure else 0)


def last_words() -> None:
    """Called at exit, when everything has been printed."""
    if _failure:
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(_LAST_WORDS_SECONDS)
