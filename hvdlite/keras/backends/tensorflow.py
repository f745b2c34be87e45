"""Keras on TensorFlow: eagerly, in graphs, and in what XLA compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from hvdlite.adapter.step import Options
from hvdlite.tensorflow.functions import broadcast_global_variables
from hvdlite.tensorflow.gradients import allreduce_gradients

__all__ = ["BACKEND", "broadcast_global_variables"]


class TensorFlowBackend:
    """See hvdlite.keras.backends.Backend."""

    dynamic = False

    def allreduce(self, groups: Sequence[Sequence[Any]], options: Options) -> list[list[Any]]:
        flat = [gradient for group in groups for gradient in group]
        numbers = iter(range(len(flat)))
        positions = [[next(numbers) for _ in group] for group in groups]
        together = positions if len(groups) > 1 else ()
        reduced = allreduce_gradients(flat, options, scope=f"{options.scope}gradients", groups=together)
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
