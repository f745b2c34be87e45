"""JAX's primitives for adapter/at_once: compressors with a memory, and Keras' gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from hvdlite.adapter import xla
from hvdlite.adapter.at_once.primitives import Backend, Group
from hvdlite.adapter.compression.methods import Encoded
from hvdlite.adapter.step import NO_COMPRESSION, Options
from hvdlite.base.operations import ALLGATHER, ALLREDUCE
from hvdlite.base.ops import Sum as SUM
from hvdlite.core.engine import codecs
from hvdlite.core.operations import Call
from hvdlite.jax import trace, traced
from hvdlite.jax.gradients import allreduce_gradients
from hvdlite.jax.ops import run


class JaxBackend(Backend):
    """A round of all gradients is one call for each kind."""

    def allreduce(self, groups: Sequence[Group], options: Options) -> Group:
        # All groups in one: XLA promises no order between calls, so that two ranks might wait in
        # different ones.
        numbers, gradients = zip(*(item for group in groups for item in group.items()), strict=True)
        reduced = allreduce_gradients(gradients, replace(options, compression=NO_COMPRESSION))
        return dict(zip(numbers, reduced, strict=True))

    def allgather(self, group: Group, options: Options) -> Group:
        call = Call(ALLGATHER, f"{options.scope}rows", options.process_set, grouped=len(group) > 1)
        return dict(zip(group, run(call, [array[None] for array in group.values()]), strict=True))

    def encoded(self, group: dict[int, Encoded], options: Options) -> dict[int, Any]:
        if not trace.is_tracing():
            return super().encoded(group, options)
        return _in_program(
            Call(ALLREDUCE, f"{options.scope}encoded", options.process_set, SUM), group
        )

    def either(
        self, condition: Any, change: Callable[[list[Any]], list[Any]], given: list[Any]
    ) -> list[Any]:
        if not trace.is_tracing():
            return super().either(condition, change, given)

        def changed(token: Any, given: list[Any]) -> tuple[Any, list[Any]]:
            with traced.after(token):
                result = change(given)
                return traced.token(), result

        # The token goes through, so that other collectives of the program keep their order.
        token, result = jax.lax.cond(
            condition, changed, lambda *same: same, traced.token(), list(given)
        )
        traced.follow(token)
        return list(result)

    def seconds(self) -> Any:
        if not trace.is_tracing():
            return super().seconds()
        return io_callback(_seconds, jax.ShapeDtypeStruct((), jnp.float32))


BACKEND = JaxBackend()


def _seconds() -> Any:
    return np.float32(Backend.seconds(BACKEND))


def _in_program(call: Call, asked: dict[int, Encoded]) -> dict[int, Any]:
    """Rounds by one codec of the core, as one call of a compiled program: sum and residual of
    each."""
    first = next(iter(asked.values()))
    number, _ = codecs()[first.codec]
    arrays = [jnp.asarray(each.array) for each in asked.values()]
    residuals = [jnp.asarray(each.residual) for each in asked.values() if each.residual is not None]
    codec = xla.codec_attributes(number, first.parameter, first.seed, len(residuals))
    operands = [*arrays, *residuals, jnp.asarray(first.step, jnp.float32)]
    shapes = [each.shape for each in operands]
    call = call._replace(grouped=len(arrays) > 1)
    *made, _ = traced.emit(call, operands, shapes, codec)
    kept = made[len(arrays) :] or [None] * len(arrays)
    return dict(zip(asked, zip(made[: len(arrays)], kept, strict=True), strict=True))
