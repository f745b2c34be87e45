"""Every collective on JAX arrays: at once where the arrays have values, as an operation of the
program where they are traced.

In a program shapes are known beforehand: there all ranks have equally many rows, and alltoall has
no splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.base.operations import EXCHANGED
from hvdlite.core.collectives import Collectives
from hvdlite.core.operations import Call, compiled, equal_starts
from hvdlite.core.process_sets import ProcessSet
from hvdlite.jax import trace, traced
from hvdlite.jax.framework import FRAMEWORK

Array = Any


class JaxCollectives(Collectives):
    def run(self, call: Call, tensors: Sequence[Array]) -> tuple[Any, ...]:
        return self._emit(call, tensors) if trace.is_tracing() else super().run(call, tensors)

    def as_splits(self, received: Array) -> Any:
        return None if trace.is_tracing() else super().as_splits(received)

    def starts(
        self, lengths: Sequence[int], name: str | None, process_set: ProcessSet
    ) -> Sequence[int]:
        if not trace.is_tracing():
            return super().starts(lengths, name, process_set)
        return equal_starts(lengths, process_set)

    def _emit(self, call: Call, tensors: Sequence[Array]) -> tuple[Any, ...]:
        for tensor in tensors:
            FRAMEWORK.check(tensor)
        if call.splits is not None:
            raise ValueError(
                "alltoall with splits has a result whose shape only the other ranks know, which a "
                "compiled function cannot have: call it outside jax.jit"
            )
        known = compiled(call, [tensor.shape for tensor in tensors], "in a compiled function")
        results = tuple(traced.emit(call, tensors, known.shapes)) if tensors else ()
        if call.operation.result is not EXCHANGED:
            return results
        return *results, self.framework.integers(known.received, call.splits_like)


OPS = JaxCollectives(FRAMEWORK)
