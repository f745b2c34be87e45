"""The names under which the gradients of an optimizer travel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hvdlite.adapter import elastic

_counted_in: tuple[str, int] | None = None
_count = 0


def scope() -> str:
    """A prefix for each optimizer but the first, so that two may have gradients of the same name
    in flight.

    Optimizers are counted from each hvd.init() on; all ranks make them in the same order. In an
    elastic job a name does not depend on how often a process has met others.
    """
    global _count, _counted_in
    era = elastic.era()
    if _counted_in != era:
        _counted_in, _count = era, 0
    _count += 1
    return era[0] if _count == 1 else f"{era[0]}optimizer.{_count}."


def check(named_parameters: Iterable[Any] | None) -> list[tuple[str, Any]]:
    """The pairs, or a ValueError."""
    pairs = [] if named_parameters is None else list(named_parameters)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise ValueError(
            "named_parameters must hold pairs of a name and a parameter: pass "
            "model.named_parameters()"
        )
    names = [name for name, _ in pairs]
    twice = (
        sorted({str(name) for name in names if names.count(name) > 1})
        if len(set(names)) < len(names)
        else []
    )
    if twice:
        raise ValueError(
            f"named_parameters has these names more than once: {', '.join(twice)}. "
            "Prefix the names of each model where an optimizer has the parameters of several."
        )
    return pairs


def assigned(groups: Sequence[Sequence[Any]], pairs: list[tuple[str, Any]]) -> dict[int, str]:
    """The name of each parameter, by its id(). All must have one, or none."""
    if not pairs:
        return {
            id(p): f"allreduce.noname.{g}.{i}"
            for g, group in enumerate(groups)
            for i, p in enumerate(group)
        }
    names = {id(parameter): name for name, parameter in pairs}
    unnamed = [
        f"{g}.{i}"
        for g, group in enumerate(groups)
        for i, p in enumerate(group)
        if id(p) not in names
    ]
    if unnamed:
        raise ValueError(
            "named_parameters leaves out parameters of the optimizer, by group.position: "
            f"{', '.join(unnamed[:10])}. Parameters are compared by identity: pass the names of "
            "all of them, from the same model."
        )
    return names
