"""Notices that ranks differ where they may not: in parameters at the first step, in variables,
steps and metrics."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

from hvdlite.adapter import elastic
from hvdlite.base import knobs
from hvdlite.core import engine
from hvdlite.core.arrays.objects import allgather_object
from hvdlite.core.process_sets import ProcessSet
from hvdlite.exceptions import MismatchError

_ADVICE = (
    "Call hvd.broadcast_parameters(model.state_dict(), root_rank=0) after hvd.init() and before "
    "the first step. "
    "HVDLITE_PARAMETER_CHECK=error makes this an error; =off turns the check off."
)


def mode() -> str:
    """warn, error or off.

    Off in elastic jobs: a newcomer would check alone, and states make parameters equal there.
    """
    if elastic.enabled():
        return "off"
    return str(knobs.resolve(os.environ)["parameter_check"])


def check(
    names: Sequence[str],
    fingerprints: Sequence[int],
    scope: str,
    process_set: ProcessSet,
    how: str = "",
) -> bool:
    """Compares with all members, all of which must call this. Equal fingerprints are taken for
    equal contents. Returns whether contents differ.

    MismatchError, on all of them, if they train different parameters or send them in another way
    (`how`, in words): some gradients would wait for ever.
    """
    told = allgather_object(
        (list(names), list(fingerprints), how), f"{scope}parameter check", process_set
    )
    everyones = [(names, prints) for names, prints, _ in told]
    ranks = process_set.ranks or list(range(len(everyones)))
    for rank, (_, _, other) in zip(ranks, told, strict=True):
        if other != told[0][2]:
            raise MismatchError(
                f"Rank {ranks[0]} sends gradients with {told[0][2]}, but rank {rank} with {other}. "
                "Give all ranks the same compression."
            )
    sentence = _different_names(everyones, ranks)
    if sentence:
        raise MismatchError(
            f"{sentence} All ranks must build the same model, with the same parameters frozen."
        )
    sentence = _different_contents(everyones, ranks)
    if not sentence:
        return False
    if mode() == "error":
        raise MismatchError(f"{sentence} {_ADVICE}")
    if process_set.rank() == 0:
        warnings.warn(f"{sentence} {_ADVICE}", stacklevel=2)
    return True


_Everyones = Sequence[tuple[list[str], list[int]]]  # names and fingerprints of each rank


def _different_names(everyones: _Everyones, ranks: Sequence[int]) -> str:
    """What differs from the first rank, in words; empty if nothing does."""
    names, _ = everyones[0]
    for rank, (other_names, _) in zip(ranks, everyones, strict=True):
        if len(other_names) != len(names):
            more, fewer = (
                (names, other_names) if len(names) > len(other_names) else (other_names, names)
            )
            alone = next((name for name in more if name not in set(fewer)), more[-1])
            who, not_who = (ranks[0], rank) if more is names else (rank, ranks[0])
            return (
                f"Rank {ranks[0]} trains {len(names)} parameters, but rank {rank} "
                f"{len(other_names)}. On rank {who} '{alone}' is trained, on rank {not_who} it is "
                "missing or frozen (requires_grad=False)."
            )
        for mine, theirs in zip(names, other_names, strict=True):
            if mine != theirs:
                return f"Rank {ranks[0]} has a parameter '{mine}' where rank {rank} has '{theirs}'."
    return ""


def _different_contents(everyones: _Everyones, ranks: Sequence[int]) -> str:
    names, prints = everyones[0]
    for number, name in enumerate(names):
        different = [
            r for r, (_, p) in zip(ranks, everyones, strict=True) if p[number] != prints[number]
        ]
        if different:
            total = sum(any(p[i] != prints[i] for _, p in everyones) for i in range(len(names)))
            who = (
                f"rank {different[0]}"
                if len(different) == 1
                else f"ranks {', '.join(map(str, different))}"
            )
            more = f" (and {total - 1} more)" if total > 1 else ""
            return (
                f"Parameter '{name}'{more} is not the same on rank {ranks[0]} and on {who} at "
                "the first step."
            )
    return ""


def check_alike(arrays: Sequence[Any], names: Sequence[str], process_set: ProcessSet) -> None:
    """A MismatchError if the members are about to broadcast different lists of variables. All
    members must call this."""
    mine = [(array.shape, str(array.dtype)) for array in arrays]
    everyones = allgather_object(mine, "broadcast_variables", process_set)
    for other, theirs in zip(process_set.ranks or [], everyones, strict=True):
        if theirs == mine:
            continue
        where = f"{len(mine)} variables here, {len(theirs)} there"
        different = [i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b]
        if different:
            i = different[0]
            where = f"'{names[i]}' is {mine[i]} here, {theirs[i]} there"
        raise MismatchError(
            f"broadcast_variables: rank {engine.rank()} and rank {other} have different variables: "
            f"{where}. Build the same model and optimizer on all ranks."
        )


def check_steps(steps: Sequence[int | None]) -> None:
    """A ValueError if the ranks are about to make different numbers of steps. None: not known."""
    known = {rank: count for rank, count in enumerate(steps) if count is not None}
    if len(set(known.values())) > 1:
        each = ", ".join(f"rank {rank}: {count}" for rank, count in list(known.items())[:16])
        raise ValueError(
            f"the ranks have different numbers of steps per epoch ({each}). Each step needs all "
            "ranks, so they would wait for each other at the end of the epoch. Pass "
            f"steps_per_epoch={min(known.values())} to fit(), or give all ranks equally many "
            "batches."
        )


def mean_metrics(mine: dict[str, float]) -> dict[str, float]:
    """The averages over all ranks; a MismatchError if some have others."""
    everyones = allgather_object(mine, "MetricAverageCallback")
    for rank, theirs in enumerate(everyones):
        if theirs.keys() != mine.keys():
            raise MismatchError(
                f"rank {rank} has the metrics {', '.join(theirs)}, and this rank has "
                f"{', '.join(mine)}. Compile the same metrics on all ranks, and pass validation "
                "data on all ranks or on none."
            )
    return {name: sum(theirs[name] for theirs in everyones) / len(everyones) for name in mine}
