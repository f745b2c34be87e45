"""What follows from what the ranks have said, and an error that travels to other ranks. Pure."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hvdlite.exceptions import MismatchError


@dataclass(frozen=True)
class TrialFailure:
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


def failure_of(error: Exception, rank: int, is_pruned: bool = False) -> TrialFailure:
    """Classes of the main program are pickled by name: all ranks run the same program."""
    try:
        pickled = pickle.dumps(error)
    except Exception:
        pickled = b""
    trace = "".join(traceback.format_exception(error)).rstrip()
    return TrialFailure(rank, f"{type(error).__name__}: {error}", trace, pickled, is_pruned)


END = "the end of the objective"


@dataclass(frozen=True)
class Said:
    """What one rank says in an exchange."""

    what: str  # the call that it makes, or END
    value: Any = None
    failure: TrialFailure | None = None


@dataclass(frozen=True)
class Agreement:
    """What all ranks do after an exchange: use the values of the ranks, or raise the error."""

    values: list[Any]
    failure: TrialFailure | None = None
    ends: bool = False  # the trial is over on all ranks


def agree(ranks: Sequence[int], said: Sequence[Said]) -> Agreement:
    """Errors come first: a rank whose objective has failed makes no call that the others make.

    Raises MismatchError if ranks without an error make different calls. `ranks`: the job's numbers
    of the ranks that have said this.
    """
    failures = [each.failure for each in said if each.failure is not None]
    if failures:
        errors = [failure for failure in failures if not failure.is_pruned]
        ends = any(each.failure is not None and each.what == END for each in said)
        return Agreement([], (errors or failures)[0], ends)
    for rank, each in zip(ranks, said, strict=True):
        if each.what != said[0].what:
            raise MismatchError(
                "the ranks of a trial have to make the same calls in the same order, but rank "
                f"{ranks[0]} is at {said[0].what}, and rank {rank} is at {each.what}"
            )
    return Agreement([each.value for each in said], ends=said[0].what == END)
