"""Keras on TensorFlow: eagerly, in graphs, and in what XLA compiles."""

from __future__ import annotations

from hvdlite.keras.backends import Backend
from hvdlite.tensorflow import gradients
from hvdlite.tensorflow.compression.algebra import ALGEBRA
from hvdlite.tensorflow.functions import broadcast_global_variables

__all__ = ["BACKEND", "broadcast_global_variables"]


class TensorFlowBackend(gradients.TensorFlowBackend, Backend):
    """TensorFlow's own."""

    algebra = ALGEBRA


BACKEND = TensorFlowBackend()
