"""Numbers that are not finite on all ranks, and where they began: DECIDES, knows numbers, no
tensors.

A NaN in the weights of one rank is in its gradients in the next step, and so, after the reduction,
in the weights of all ranks, which are the same then. So each rank notes two things: since when what
it alone computes in a step is not finite (a gradient before its reduction, a loss), and since when
its parameters are not. Where the latter is so, it asks, and all ranks tell both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hvdlite.adapter.agreement.presence import in_words


class Told(NamedTuple):
    """What a rank tells. Steps are counted back from this one, which is 1; 0: finite, or not
    known."""

    alone: int  # since when what it computes alone is not finite
    kept: int  # since when its parameters are not
    parameter: int  # the number of the first of these; -1: there is none
    others: int  # how many more there are


class Notes:
    """What a rank notes. `parts`: so many looks reach all parameters."""

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._alone = self._kept = 0  # steps; 0: finite
        self._finite_looks = 0  # at parameters, since the last that found something else
        self._has_told = False

    def alone(self, step: int, is_finite: bool) -> None:
        """What this rank has computed alone in this step."""
        self._alone = 0 if is_finite else self._alone or step

    def kept(self, step: int, is_finite: bool | None) -> None:
        """A part of the parameters, in this step. None: the part is empty."""
        if is_finite is None:
            return
        self._finite_looks = self._finite_looks + 1 if is_finite else 0
        if not is_finite:
            self._kept = self._kept or step
        elif self._finite_looks >= self._parts:
            self._kept, self._has_told = 0, False

    @property
    def asks(self) -> bool:
        """Whether all ranks should tell."""
        return self._kept > 0 and not self._has_told

    def told(self, step: int, parameter: int, others: int) -> Told:
        """In this step. The rank does not ask again before all its parameters were finite."""
        self._has_told = True
        alone, kept = (step - since + 1 if since else 0 for since in (self._alone, self._kept))
        return Told(alone, kept, parameter, others)


def sentence(everyones: Mapping[int, Told], label: str, step: int) -> str:
    """In words; empty if the parameters of a rank are finite, which is a difference then."""
    if any(told.parameter < 0 for told in everyones.values()):
        return ""
    oldest = max(max(told.alone, told.kept) for told in everyones.values())
    others = min(told.others for told in everyones.values())
    more = f" (and {others} more)" if others else ""
    return (
        f"Parameter '{label}'{more} is not finite on all ranks since step {step - oldest + 1}, "
        f"{_first(everyones)} (found in step {step} of this optimizer)."
    )


def _first(everyones: Mapping[int, Told]) -> str:
    alone = max(told.alone for told in everyones.values())
    kept = max(told.kept for told in everyones.values())
    if alone:
        first = [rank for rank, told in everyones.items() if told.alone == alone]
    else:
        first = [rank for rank, told in everyones.items() if told.kept == kept]
    if len(first) < len(everyones):
        return f"first on {in_words(first)}"
    if alone:
        return "on all of them in the same step"
    return "and no rank is known to be the first"
