"""Collectives inside a tf.function by way of Python: for where the native kernels (native.py) cannot be used.

Each blocks a thread of TensorFlow's executor, which has few: so all tensors of a call travel in one, and the calls are
stateful, which makes tf.function run them one at a time and in the program's order, the same on every rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hvdlite import collectives as on_arrays
from hvdlite import grouped as on_groups
from hvdlite.handles import synchronize
from hvdlite.process_sets import ProcessSet
from hvdlite.tensorflow.framework import rows_like


def _call(body: Callable[..., Any], tensors: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
    results = tf.numpy_function(body, list(tensors), list(dtypes), stateful=True)
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _like(results: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    for result, tensor in zip(results, tensors, strict=True):
        result.set_shape(tensor.shape)
    return list(results)


def allreduce(
    tensors: Sequence[Any], names: Sequence[str | None], op: int, prescale: float, postscale: float, s: ProcessSet
) -> list[Any]:
    """Each under its own name, all under way at once."""

    def body(*arrays: Any) -> Any:
        start = on_arrays.allreduce_async
        handles = [start(a, None, n, op, prescale, postscale, s) for a, n in zip(arrays, names, strict=True)]
        return [synchronize(handle) for handle in handles]

    return _like(_call(body, tensors, [t.dtype for t in tensors]), tensors)


def grouped_allreduce(
    tensors: Sequence[Any], name: str | None, op: int, prescale: float, postscale: float, s: ProcessSet
) -> list[Any]:
    def body(*arrays: Any) -> Any:
        return list(on_groups.grouped_allreduce(list(arrays), None, name, op, prescale, postscale, s))

    return _like(_call(body, tensors, [t.dtype for t in tensors]), tensors)


def broadcast(tensor: Any, root: int, name: str | None, s: ProcessSet) -> Any:
    return _like(_call(lambda a: on_arrays.broadcast(a, root, name, s), [tensor], [tensor.dtype]), [tensor])[0]


def grouped_allgather(tensors: Sequence[Any], name: str | None, s: ProcessSet) -> list[Any]:
    def body(*arrays: Any) -> Any:
        if len(arrays) == 1:
            return [on_arrays.allgather(arrays[0], name, s)]
        return list(on_groups.grouped_allgather(list(arrays), name, s))

    return rows_like(_call(body, tensors, [t.dtype for t in tensors]), tensors)


def grouped_reducescatter(
    tensors: Sequence[Any], name: str | None, op: int, prescale: float, postscale: float, s: ProcessSet
) -> list[Any]:
    def body(*arrays: Any) -> Any:
        if len(arrays) == 1:
            return [on_arrays.reducescatter(arrays[0], name, op, s, prescale, postscale)]
        return list(on_groups.grouped_reducescatter(list(arrays), name, op, s, prescale, postscale))

    return rows_like(_call(body, tensors, [t.dtype for t in tensors]), tensors)


def alltoall(tensor: Any, splits: Any, name: str | None, s: ProcessSet) -> tuple[Any, Any]:
    def body(array: Any, parts: Any) -> Any:
        handle = on_arrays.alltoall_async(array, parts if parts.size else None, name, s)
        output, received = synchronize(handle)
        return [output, np.asarray(received, np.int32)]

    output, received = _call(body, [tensor, splits], [tensor.dtype, tf.int32])
    received.set_shape([None])
    return rows_like([output], [tensor])[0], received


def join(name: str) -> Any:
    return number(on_arrays.join)


def number(body: Callable[[], int]) -> Any:
    """What `body` says when the graph runs."""
    (result,) = _call(lambda: np.int32(body()), [], [tf.int32])
    result.set_shape([])
    return result


#: as allreduce(): a call of Python's always runs, and in the program's order
gradients = allreduce
