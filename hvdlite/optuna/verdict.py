"""What follows from what the ranks have said. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hvdlite.exceptions import MismatchError
from hvdlite.optuna.failure import Failure

END = "the end of the objective"


@dataclass(frozen=True)
class Said:
    """What one rank says in an exchange."""

    what: str  # the call that it makes, or END
    value: Any = None
    failure: Failure | None = None


@dataclass(frozen=True)
class Verdict:
    """What all ranks do after an exchange: use the values of the ranks, or raise the error."""

    values: list[Any]
    failure: Failure | None = None
    ends: bool = False  # the trial is over on all ranks


def verdict(ranks: Sequence[int], said: Sequence[Said]) -> Verdict:
    """Errors come first: a rank whose objective has failed makes no call that the others make.

    Raises MismatchError if ranks without an error make different calls. `ranks`: the job's numbers
    of the ranks that have said this.
    """
    failures = [each.failure for each in said if each.failure is not None]
    if failures:
        errors = [failure for failure in failures if not failure.is_pruned]
        ends = any(each.failure is not None and each.what == END for each in said)
        return Verdict([], (errors or failures)[0], ends)
    for rank, each in zip(ranks, said, strict=True):
        if each.what != said[0].what:
            raise MismatchError(
                "the ranks of a trial have to make the same calls in the same order, but rank "
                f"{ranks[0]} is at {said[0].what}, and rank {rank} is at {each.what}"
            )
    return Verdict([each.value for each in said], ends=said[0].what == END)
