"""Tensors of TensorFlow, eagerly, in graphs and in what XLA compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import hvdlite.tensorflow
from checks import needs
from checks.api import TracingApi
from checks.tensorflow_run import TensorFlowRun
from hvdlite.tensorflow import xla

MODES = ("eager", "graph", "compiled")
# What XLA compiles has shapes that are known when it is traced.
DYNAMIC_MODES = ("eager", "graph")


class TensorFlowApi(TracingApi):
    hvd = hvdlite.tensorflow
    Run = TensorFlowRun
    modes = DYNAMIC_MODES if xla.problem() else MODES
    fixed_modes = ("compiled",)
    fixed_splits = True
    gradient_dtypes = ("float64",)

    def tensor(self, array: np.ndarray) -> tf.Tensor:
        return tf.constant(array)

    def array(self, tensor: Any) -> np.ndarray:
        assert tf.is_tensor(tensor), f"got a {type(tensor).__name__}"
        return np.asarray(tensor.numpy() if isinstance(tensor, tf.Tensor) else tensor)

    def made(self, mode: str, function: Callable[..., Any]) -> Any:
        """The function as it is, as a tf.function, or as one that XLA compiles."""
        needs(mode in self.modes, "TensorFlow 2.18, whose XLA offers custom calls")
        return (
            function if mode == "eager" else tf.function(function, jit_compile=mode == "compiled")
        )

    def run(self, mode: str, function: Callable[..., Any], *tensors: Any) -> Any:
        return self.made(mode, function)(*tensors)

    def program(self, function: Callable[..., Any], *tensors: Any) -> str:
        compiled = self.made("compiled", function)
        return str(compiled.experimental_get_compiler_ir(*tensors)(stage="optimized_hlo"))

    def pull(self, function: Callable[[Any], Any], x: Any, dy: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x, output_gradients=dy)

    def wrong_dtypes(self) -> list[Any]:
        return [tf.constant("text"), tf.constant(1j)]

    def invalid(self, mode: str) -> type[Exception]:
        return tf.errors.InvalidArgumentError  # type: ignore[no-any-return]

    def mismatch(self, mode: str) -> type[Exception]:
        return tf.errors.FailedPreconditionError  # type: ignore[no-any-return]


API = TensorFlowApi()
array, made, run, tensor = API.array, API.made, API.run, API.tensor
