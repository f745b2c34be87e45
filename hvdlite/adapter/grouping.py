"""Which gradients travel together, as numbers of their variables. Knows no framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def equal_parts(total: int, count: int) -> list[list[int]]:
    """0 to total - 1 in so many parts of nearly equal length; the first ones get the odd ones."""
    each, odd = divmod(total, count)
    ends = [each * (i + 1) + min(i + 1, odd) for i in range(count)]
    return [list(range(start, end)) for start, end in zip([0, *ends], ends, strict=False)]


def positions(groups: Any, variables: Sequence[Any]) -> list[list[int]]:
    """`groups`: None, how many, or lists of variables. Who is in no list travels alone."""
    if not groups:
        return []
    if isinstance(groups, int):
        return equal_parts(len(variables), groups)
    number = {id(variable): i for i, variable in enumerate(variables)}
    return [[number[id(v)] for v in group if id(v) in number] for group in groups]
