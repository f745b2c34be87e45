"""Copies of variables. The memory of a copy is allocated once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Copy:
    """What variables had in them."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, Array]] = []

    def take(self, variables: Sequence[Any], contents: Iterable[Array]) -> None:
        before = {id(variable): array for variable, array in self._kept}
        self._kept = [
            (variable, _copied(array, before.get(id(variable))))
            for variable, array in zip(variables, contents, strict=True)
        ]

    def items(self) -> list[tuple[Any, Array]]:
        """Pairs of a variable and an array of the caller's own: JAX may use its memory."""
        return [(variable, array.copy()) for variable, array in self._kept]


def _copied(value: Array, own: Array | None) -> Array:
    if own is None or own.shape != value.shape or own.dtype != value.dtype:
        own = np.empty(value.shape, value.dtype)
    np.copyto(own, value)
    return own
