"""Keras on TensorFlow: eagerly, in graphs, and in what XLA compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from hvdlite.keras.backends import Backend
from hvdlite.tensorflow import gradients
from hvdlite.tensorflow.compression.algebra import ALGEBRA
from hvdlite.tensorflow.functions import broadcast_global_variables

__all__ = ["BACKEND", "broadcast_global_variables"]


class TensorFlowBackend(gradients.TensorFlowBackend, Backend):
    """TensorFlow's own."""

    algebra = ALGEBRA

    def trace_step(self, model: Any, step: Callable[..., Any], batch: Any) -> None:
        """A graph of the call has the graph of the step, which is found again by its signature.
        That leaves the number of samples open, so it goes on with other ranks."""
        if not model.run_eagerly:
            given = tf.nest.map_structure(_of_any_length, batch)
            tf.function(
                lambda batch: step([batch]), input_signature=[given], autograph=False
            ).get_concrete_function()


def _of_any_length(array: Any) -> Any:
    return tf.TensorSpec([None, *array.shape[1:]], array.dtype)


BACKEND = TensorFlowBackend()
