"""Collectives inside a tf.function by way of Python: for where the kernels (by_kernel.py)
cannot be used.

Each blocks a thread of TensorFlow's executor, which has few: so all tensors of a call travel in
one, and the calls are stateful, which makes tf.function run them one at a time and in the program's
order, the same on every rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hvdlite.base.operations import EXCHANGED
from hvdlite.core.arrays import ops as on_arrays
from hvdlite.core.engine import run_now
from hvdlite.core.operations import Call
from hvdlite.tensorflow.framework import with_shapes


def emit(call: Call, tensors: Sequence[Any]) -> list[Any]:
    if call.operation.result is EXCHANGED:
        return _exchange(call, tensors[0])

    def body(*arrays: Any) -> Any:
        return list(on_arrays.OPS.run(call, list(arrays)))

    return with_shapes(call, _call(body, tensors, [t.dtype for t in tensors]), tensors)


def gradients(call: Call, tensors: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Each under its own name, all in flight at once. They always run, in the program's order."""

    def body(*arrays: Any) -> Any:
        start = on_arrays.OPS.start
        pending = [
            start(call._replace(name=name), [array])
            for name, array in zip(names, arrays, strict=True)
        ]
        return [run_now(each) for each in pending]

    return with_shapes(call, _call(body, tensors, [t.dtype for t in tensors]), tensors)


def _exchange(call: Call, tensor: Any) -> list[Any]:
    splits = tf.constant([], tf.int32) if call.splits is None else call.splits

    def body(array: Any, parts: Any) -> Any:
        given = parts.tolist() if parts.size else None
        return list(on_arrays.OPS.run(call._replace(splits=given), [array]))

    return with_shapes(call, _call(body, [tensor, splits], [tensor.dtype, tf.int32]), [tensor])


def join(name: str) -> Any:
    return number(on_arrays.join)


def number(body: Callable[[], int]) -> Any:
    """What `body` says when the graph runs."""
    (result,) = _call(lambda: np.int32(body()), [], [tf.int32])
    result.set_shape([])
    return result


def _call(body: Callable[..., Any], tensors: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
    results = tf.numpy_function(body, list(tensors), list(dtypes), stateful=True)
    return list(results) if isinstance(results, (list, tuple)) else [results]
