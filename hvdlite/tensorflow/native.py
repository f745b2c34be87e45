"""The kernels of libhvdlite_tensorflow.so (csrc/ingraph), or why there are none."""

from __future__ import annotations

import ctypes
import os
import struct
import warnings
from typing import Any

import tensorflow as tf

from hvdlite.base import knobs
from hvdlite.core import engine

_NAME = "libhvdlite_tensorflow.so"


def _load() -> tuple[Any, str]:
    """What TensorFlow makes of the library, or None and a sentence."""
    if not knobs.resolve(os.environ)["tensorflow_kernels"]:
        return None, "HVDLITE_TENSORFLOW_KERNELS turns them off"
    path = engine.library(_NAME)
    try:
        # First TensorFlow: it looks which operations appear while it loads the library.
        operations = tf.load_op_library(path)
        ask = ctypes.CDLL(path).hvdlite_tensorflow_problem
    except (OSError, tf.errors.OpError) as error:
        return None, f"{_NAME} cannot be loaded: {error}"
    ask.restype = ctypes.c_char_p
    problem = ask().decode()
    return (None, problem) if problem else (operations, "")


OPERATIONS, WHY_NOT = _load()
if OPERATIONS is None and "turns them off" not in WHY_NOT:
    warnings.warn(
        f"hvdlite's kernels for TensorFlow {tf.__version__} cannot be used: {WHY_NOT}. Operations "
        "inside a tf.function go by way of Python instead, which is slower.",
        stacklevel=2,
    )


def bits(factor: float) -> int:
    """A double as the kernels' attributes have it, which as floats would have 32 bits."""
    return int(struct.unpack("<q", struct.pack("<d", factor))[0])
