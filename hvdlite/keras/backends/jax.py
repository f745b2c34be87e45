"""Keras on JAX: inside the compiled step, and at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hvdlite.adapter.reduction import Group
from hvdlite.adapter.step import NO_COMPRESSION, Options
from hvdlite.jax.gradients import allreduce_gradients
from hvdlite.keras.backends import Backend


class JaxBackend(Backend):
    def allreduce(self, groups: Sequence[Group], options: Options) -> Group:
        # All groups in one: XLA promises no order between calls, so that two ranks might wait in
        # different ones.
        numbers, gradients = zip(*(item for group in groups for item in group.items()), strict=True)
        reduced = allreduce_gradients(gradients, replace(options, compression=NO_COMPRESSION))
        return dict(zip(numbers, reduced, strict=True))


BACKEND = JaxBackend()
