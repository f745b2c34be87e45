"""Notices at the first step that ranks have started with different parameters: they would never become equal again."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

from hvdlite.arrays.objects import allgather_object
from hvdlite.base import knobs
from hvdlite.core.process_sets import ProcessSet
from hvdlite.exceptions import MismatchError

_ADVICE = (
    "Call hvd.broadcast_parameters(model.state_dict(), root_rank=0) after hvd.init() and before the first step. "
    "HVDLITE_PARAMETER_CHECK=error makes this an error, =off says that it is meant so."
)


def mode() -> str:
    """warn, error or off."""
    return str(knobs.resolve(os.environ)["parameter_check"])


def check(names: Sequence[str], fingerprints: Sequence[int], scope: str, process_set: ProcessSet) -> None:
    """Compares with all members, all of which must call this. Equal fingerprints are taken for equal contents.

    MismatchError, on all of them, if they train different parameters: some gradients would wait for ever.
    """
    everyones = allgather_object((list(names), list(fingerprints)), f"{scope}parameter check", process_set)
    ranks = process_set.ranks or list(range(len(everyones)))
    sentence = _different_names(everyones, ranks)
    if sentence:
        raise MismatchError(f"{sentence} All ranks must build the same model, with the same parameters frozen.")
    sentence = _different_contents(everyones, ranks)
    if not sentence:
        return
    if mode() == "error":
        raise MismatchError(f"{sentence} {_ADVICE}")
    if process_set.rank() == 0:
        warnings.warn(f"{sentence} {_ADVICE}", stacklevel=2)


_Everyones = Sequence[tuple[list[str], list[int]]]  # names and fingerprints of each rank


def _different_names(everyones: _Everyones, ranks: Sequence[int]) -> str:
    """What differs from the first rank, in words; empty if nothing does."""
    names, _ = everyones[0]
    for rank, (other_names, _) in zip(ranks, everyones, strict=True):
        if len(other_names) != len(names):
            more, fewer = (names, other_names) if len(names) > len(other_names) else (other_names, names)
            alone = next((name for name in more if name not in set(fewer)), more[-1])
            who, not_who = (ranks[0], rank) if more is names else (rank, ranks[0])
            return (
                f"Rank {ranks[0]} trains {len(names)} parameters, but rank {rank} {len(other_names)}. On rank {who} "
                f"'{alone}' is trained, on rank {not_who} it is missing or frozen (requires_grad=False)."
            )
        for mine, theirs in zip(names, other_names, strict=True):
            if mine != theirs:
                return f"Rank {ranks[0]} has a parameter '{mine}' where rank {rank} has '{theirs}'."
    return ""


def _different_contents(everyones: _Everyones, ranks: Sequence[int]) -> str:
    names, prints = everyones[0]
    for number, name in enumerate(names):
        different = [r for r, (_, p) in zip(ranks, everyones, strict=True) if p[number] != prints[number]]
        if different:
            total = sum(any(p[i] != prints[i] for _, p in everyones) for i in range(len(names)))
            who = f"rank {different[0]}" if len(different) == 1 else f"ranks {', '.join(map(str, different))}"
            more = f" (and {total - 1} more)" if total > 1 else ""
            return f"Parameter '{name}'{more} is not the same on rank {ranks[0]} and on {who} at the first step."
    return ""
