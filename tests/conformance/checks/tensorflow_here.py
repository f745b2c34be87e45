"""What the checks of hvdlite.tensorflow share: both ways to run, and numpy's data as tensors and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from checks.among import Among, process_sets

__all__ = ["MODES", "Among", "array", "process_sets", "run", "tensor"]

MODES = ("eager", "graph")


def run(mode: str, function: Callable[..., Any], *args: Any) -> Any:
    """As it is, or as a tf.function."""
    return function(*args) if mode == "eager" else tf.function(function)(*args)


def tensor(array: np.ndarray) -> tf.Tensor:
    return tf.constant(array)


def array(value: Any) -> np.ndarray:
    assert tf.is_tensor(value), f"got a {type(value).__name__}"
    return np.asarray(value)
