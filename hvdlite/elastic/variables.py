"""How variables that are changed in place are copied and put back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hvdlite.elastic.handlers import StateHandler

Array = np.ndarray[Any, Any]
Variables = list[Any]
Contents = list[tuple[Any, Array]]  # variables, each with its own


class Copy:
    """What variables had in them. The memory is allocated once."""

    def __init__(self) -> None:
        self._kept: Contents = []

    def take(self, variables: Sequence[Any], contents: Iterable[Array]) -> None:
        before = {id(variable): array for variable, array in self._kept}
        self._kept = [
            (variable, _copied(array, before.get(id(variable))))
            for variable, array in zip(variables, contents, strict=True)
        ]

    def contents(self) -> Contents:
        """With arrays of the caller's own: JAX may use their memory."""
        return [(variable, array.copy()) for variable, array in self._kept]


class VariablesHandler(StateHandler):
    """Of something with variables. A framework says which there are, and reads and writes them."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._copy = Copy()
        self._kept = Copy()
        self._latest = self._copy  # of those that have everything

    def variables(self) -> Variables:
        raise NotImplementedError

    def not_guarded(self) -> Variables | None:
        """Those that a step that fails may have changed; None: all."""
        return None

    def read(self, variables: Variables) -> Iterable[Array]:
        raise NotImplementedError

    def write(self, contents: Contents) -> None:
        raise NotImplementedError

    # ---- what states ask for

    def save(self) -> None:
        self._take_all(self._copy)

    def restore(self) -> None:
        self.write(self._copy.contents())

    def keep(self) -> None:
        some = self.not_guarded()
        if some is None:
            self._take_all(self._kept)
        else:
            self._kept.take(some, self.read(some))

    def put_back(self) -> None:
        self.write(self._kept.contents())

    def revive(self) -> None:
        """Puts back the latest copy of everything."""
        self.write(self._latest.contents())

    def _take_all(self, copy: Copy) -> None:
        variables = self.variables()
        copy.take(variables, self.read(variables))
        self._latest = copy


def _copied(value: Array, own: Array | None) -> Array:
    if own is None or own.shape != value.shape or own.dtype != value.dtype:
        own = np.empty(value.shape, value.dtype)
    np.copyto(own, value)
    return own
