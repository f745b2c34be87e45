"""The reduction of a step's gradients: one call for all of them, at once or inside jax.jit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.adapter.gradients import Allreduce
from hvdlite.adapter.step import Options
from hvdlite.jax.collectives import OPS
from hvdlite.jax.compression import compressed
from hvdlite.jax.leaves import map_leaves
from hvdlite.process_sets import set_id_of

Array = Any


def allreduce_gradients(gradients: Sequence[Array | None], options: Options) -> list[Array | None]:
    """The reduced gradients. Absent ones (None) stay absent, and on ranks outside the process set all stay as they are."""
    process_set = options.process_set
    set_id_of(process_set)  # or an error that says what is missing
    if not process_set.included():
        return list(gradients)
    name = f"{options.scope}gradients"

    def send(arrays: list[Array]) -> list[Array]:
        rule = Allreduce(OPS, name, process_set, len(arrays) > 1, options.op, options.prescale, options.postscale)
        given = options.compression.given
        return compressed(given, arrays, name, lambda payloads: OPS.framework.differentiable(rule, payloads))

    return list(map_leaves(list(gradients), send))
