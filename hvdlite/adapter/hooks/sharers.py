"""Optimizers that have parameters in common: gradients of these are reduced for one of them at a
time."""

from __future__ import annotations

import weakref
from typing import Any

MADE_BEFORE = (
    " This optimizer shares {} with an earlier hvd.DistributedOptimizer. Every backward pass "
    "reduces gradients of shared parameters for the optimizer that was made last, which is this "
    "one. Put all parameters into one optimizer with several param groups, or make this one when "
    "the other is no longer used."
)
MADE_LATER = (
    "The gradient of {} would be added up twice: another hvd.DistributedOptimizer, made later, "
    "shares the parameter and "
    "reduces it. With op=Sum, put all parameters into one optimizer, with several param groups."
)


class Sharers:
    """The parameters that a reducer has in common with others, as long as these exist."""

    def __init__(self) -> None:
        self._found: list[tuple[str, weakref.ref[Any]]] = []

    def note(self, label: str, other: Any) -> None:
        self._found.append((label, weakref.ref(other)))

    def named(self) -> str:
        """The first of these parameters, and how many more; empty if there are none."""
        labels = [label for label, other in self._found if other() is not None]
        if not labels:
            return ""
        return f"'{labels[0]}'" + (f" (and {len(labels) - 1} more)" if len(labels) > 1 else "")
