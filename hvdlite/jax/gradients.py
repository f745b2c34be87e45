"""The reduction of a step's gradients: one call for all of them, at once or inside jax.jit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hvdlite.adapter.step import Options
from hvdlite.base.operations import ALLREDUCE
from hvdlite.core.operations import Call
from hvdlite.jax.framework import map_leaves
from hvdlite.jax.ops import run

Array = Any


class Transformation(NamedTuple):
    """What optax calls a GradientTransformation, for optimizers that are no tuples of two
    themselves."""

    init: Any
    update: Any


def allreduce_gradients(gradients: Sequence[Array | None], options: Options) -> list[Array | None]:
    """The reduced gradients. Absent ones (None) stay absent, and on ranks outside the process set
    all stay as they are."""
    if not options.takes_part():
        return list(gradients)
    name = f"{options.scope}gradients"

    def send(arrays: list[Array]) -> list[Array]:
        factors = (options.prescale, options.postscale)
        call = Call(
            ALLREDUCE, name, options.process_set, options.op, *factors, grouped=len(arrays) > 1
        )
        return run(call, arrays, options.compression.given)

    return list(map_leaves(list(gradients), send))
