"""Keras on JAX: inside the compiled step, and at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hvdlite.adapter.compression.methods import Encoded
from hvdlite.adapter.reduction import Group
from hvdlite.adapter.step import NO_COMPRESSION, Options
from hvdlite.base.operations import ALLGATHER, ALLREDUCE
from hvdlite.base.ops import Sum as SUM
from hvdlite.core.operations import Call
from hvdlite.jax.compression.algebra import JaxAlgebra
from hvdlite.jax.compression.encoded import by_codec
from hvdlite.jax.gradients import allreduce_gradients
from hvdlite.jax.ops import run
from hvdlite.keras.backends import Backend
from hvdlite.keras.flavour import KERAS


class _Algebra(JaxAlgebra):
    """Its cells are variables, which have other values while a step is traced."""

    def cell(self, array: Any) -> Any:
        return KERAS.Variable(array, trainable=False, name="compression")

    def read(self, cell: Any) -> Any:
        return cell.value

    def write(self, cell: Any, array: Any) -> Any:
        cell.assign(array)
        return cell


class JaxBackend(Backend):
    algebra = _Algebra()
    keeps_memory_in_optimizer = True

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
        call = Call(ALLREDUCE, f"{options.scope}encoded", options.process_set, SUM)
        return by_codec(call, group)


BACKEND = JaxBackend()
