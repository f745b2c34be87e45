"""The reduction of a step's gradients: one call for all of them, at once or inside jax.jit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.base.ops import Average
from hvdlite.core.operations import ALLREDUCE, Call
from hvdlite.core.process_sets import ProcessSet, global_process_set, set_id_of
from hvdlite.jax.compression import Compression
from hvdlite.jax.leaves import map_leaves
from hvdlite.jax.ops import run

Array = Any


def allreduce_gradients(
    gradients: Sequence[Array | None],
    *,
    op: int = Average,
    prescale: float = 1.0,
    postscale: float = 1.0,
    compression: Any = Compression.none,
    process_set: ProcessSet = global_process_set,
    scope: str = "",
) -> list[Array | None]:
    """The reduced gradients. Absent ones (None) stay absent, and on ranks outside `process_set` all stay as they are.

    `scope` distinguishes the gradients of several optimizers: see hvdlite.adapter.names.scope().
    """
    set_id_of(process_set)  # or an error that says what is missing
    if not process_set.included():
        return list(gradients)
    name = f"{scope}gradients"

    def send(arrays: list[Array]) -> list[Array]:
        call = Call(ALLREDUCE, name, process_set, op, prescale, postscale, grouped=len(arrays) > 1)
        return run(call, arrays, compression)

    return list(map_leaves(list(gradients), send))
