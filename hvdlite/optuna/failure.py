"""An error that travels to other ranks. Pure."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """An error of one rank."""

    rank: int
    text: str  # "ValueError: ..."
    trace: str
    pickled: bytes
    is_pruned: bool = False  # Optuna's TrialPruned: no error, but a decision

    def error(self) -> Exception:
        """The error for another rank: the same, if it can be pickled there and here."""
        try:
            found = pickle.loads(self.pickled)
        except Exception:
            found = None
        error = found if isinstance(found, Exception) else RuntimeError(self.text)
        error.__cause__ = RaisedElsewhere(f"rank {self.rank} raised this:\n{self.trace}")
        return error


class RaisedElsewhere(Exception):
    """The traceback of an error of another rank."""


def failure_of(error: Exception, rank: int, is_pruned: bool = False) -> Failure:
    """Classes of the main program are pickled by name: all ranks run the same program."""
    try:
        pickled = pickle.dumps(error)
    except Exception:
        pickled = b""
    trace = "".join(traceback.format_exception(error)).rstrip()
    return Failure(rank, f"{type(error).__name__}: {error}", trace, pickled, is_pruned)
