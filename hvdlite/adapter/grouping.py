"""Which gradients travel together, as numbers of their variables. Knows no framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

#: none, how many, or lists of variables
Groups = int | Sequence[Sequence[Any]] | None


@dataclass(frozen=True)
class Members:
    """What a program lists in `groups`, in its framework's words, and whether 0 groups mean
    none."""

    one: str
    listed: str
    zero: bool = True
    expected: str = ""
    is_one: Callable[[Any], bool] = lambda member: True

    def checked(self, groups: Any) -> Groups:
        """`groups`, or a ValueError with a sentence."""
        if groups is None or (
            groups == 0 and self.zero and isinstance(groups, int) and groups is not False
        ):
            return None
        if isinstance(groups, int) and not isinstance(groups, bool) and groups > 0:
            return groups
        if not isinstance(groups, Iterable) or any(
            not isinstance(group, (list, tuple)) for group in groups
        ):
            number = "non-negative" if self.zero else "positive"
            raise ValueError(
                f"groups should be a {number} integer or a list of lists of {self.listed}, not "
                f"{groups!r}"
            )
        lists = [list(group) for group in groups]
        seen: set[int] = set()
        for member in (m for group in lists for m in group):
            if not self.is_one(member):
                raise ValueError(f"groups: expected {self.expected}, got {type(member).__name__}")
            if id(member) in seen:
                raise ValueError(f"groups: a {self.one} is listed more than once")
            seen.add(id(member))
        return lists


VARIABLES = Members("variable", "variables")


def equal_parts(total: int, count: int) -> list[list[int]]:
    """0 to total - 1 in so many parts of nearly equal length; the first ones get the odd ones."""
    each, odd = divmod(total, count)
    ends = [each * (i + 1) + min(i + 1, odd) for i in range(count)]
    return [list(range(start, end)) for start, end in zip([0, *ends], ends, strict=False)]


def positions(groups: Any, variables: Sequence[Any]) -> list[list[int]]:
    """`groups`: None, how many, or lists of variables. A variable in no list travels alone."""
    if not groups:
        return []
    if isinstance(groups, int):
        return equal_parts(len(variables), groups)
    number = {id(variable): i for i, variable in enumerate(variables)}
    return [[number[id(v)] for v in group if id(v) in number] for group in groups]
