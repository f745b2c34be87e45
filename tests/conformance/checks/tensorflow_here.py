"""What the checks of hvdlite.tensorflow share: the ways to run, and numpy's data as tensors and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from checks import needs
from checks.among import Among, process_sets
from hvdlite.tensorflow import xla

__all__ = ["DYNAMIC_MODES", "MODES", "Among", "array", "made", "modes", "process_sets", "run", "tensor"]

MODES = ("eager", "graph", "compiled")
# What XLA compiles has shapes that are known when it is traced.
DYNAMIC_MODES = ("eager", "graph")


def modes() -> tuple[str, ...]:
    """Those that this version of TensorFlow has."""
    return DYNAMIC_MODES if xla.problem() else MODES


def made(mode: str, function: Callable[..., Any]) -> Any:
    """The function as it is, as a tf.function, or as one that XLA compiles."""
    needs(mode in modes(), "TensorFlow 2.18, whose XLA offers custom calls")
    return function if mode == "eager" else tf.function(function, jit_compile=mode == "compiled")


def run(mode: str, function: Callable[..., Any], *args: Any) -> Any:
    return made(mode, function)(*args)


def tensor(array: np.ndarray) -> tf.Tensor:
    return tf.constant(array)


def array(value: Any) -> np.ndarray:
    assert tf.is_tensor(value), f"got a {type(value).__name__}"
    return np.asarray(value)
