"""Every collective on JAX arrays: at once where the arrays have values, as an operation of the
program where they are traced.

In a program shapes are known beforehand: there all ranks have equally many rows, and alltoall has
no splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.base.operations import EXCHANGED, SHARED
from hvdlite.core.collectives import Collectives, check_scatter
from hvdlite.core.engine import rank, ranks_of
from hvdlite.core.operations import Call, compiled_shape
from hvdlite.core.process_sets import ProcessSet, set_id_of
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
        position = ranks_of(set_id_of(process_set)).index(rank())
        return [position * length for length in lengths]

    def _emit(self, call: Call, tensors: Sequence[Array]) -> tuple[Any, ...]:
        for tensor in tensors:
            FRAMEWORK.check(tensor)
        if call.operation.result is SHARED:
            check_scatter(call.operation, call.op)
        if call.splits is not None:
            raise ValueError(
                "alltoall with splits has a result whose shape only the other ranks know, which a "
                "compiled function cannot have: call it outside jax.jit"
            )
        members = len(ranks_of(set_id_of(call.process_set)))
        shapes = [compiled_shape(call, t.shape, members, "in a compiled function") for t in tensors]
        results = tuple(traced.emit(call, tensors, shapes)) if tensors else ()
        if call.operation.result is not EXCHANGED:
            return results
        return *results, self.framework.integers(
            [shapes[0][0] // members] * members, call.splits_like
        )


OPS = JaxCollectives(FRAMEWORK)
