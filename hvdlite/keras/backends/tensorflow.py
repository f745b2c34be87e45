"""Keras on TensorFlow: eagerly, in graphs, and in what XLA compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from hvdlite.keras.backends import Way
from hvdlite.tensorflow.functions import broadcast_global_variables
from hvdlite.tensorflow.gradients import allreduce_gradients

__all__ = ["BACKEND", "broadcast_global_variables"]


class TensorFlowBackend:
    """See hvdlite.keras.backends.Backend."""

    dynamic = False

    def allreduce(self, scope: str, groups: Sequence[Sequence[Any]], way: Way) -> list[list[Any]]:
        flat = [gradient for group in groups for gradient in group]
        numbers = iter(range(len(flat)))
        positions = [[next(numbers) for _ in group] for group in groups]
        reduced = allreduce_gradients(
            flat,
            op=way.op,
            prescale=way.prescale,
            postscale=way.postscale,
            process_set=way.process_set,
            scope=f"{scope}gradients",
            groups=positions if len(groups) > 1 else (),
        )
        return [[reduced[i] for i in group] for group in positions]

    def outside(self, function: Callable[..., Any], *given: Any) -> Any:
        return function(*given)

    def is_sparse(self, gradient: Any) -> bool:
        return isinstance(gradient, tf.IndexedSlices)

    def to_dense(self, gradient: Any) -> Any:
        return tf.convert_to_tensor(gradient)

    def scaled(self, gradient: Any, factor: float) -> Any:
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
        return gradient * factor


BACKEND = TensorFlowBackend()
