"""TensorFlow's primitives for hvdlite.adapter, for code that runs eagerly. Graphs are
graph.py's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hvdlite.base.operations import SAME
from hvdlite.core.framework import DTYPES, Common
from hvdlite.core.gradients import Rule
from hvdlite.core.operations import Call
from hvdlite.tensorflow.errors import in_tensorflows_words

SUPPORTED = frozenset(getattr(tf, name) for name in DTYPES)

# What TensorFlow's kernels take for granted of memory that they are lent: they end the process
# where it is not so.
_ALIGNMENT = 64


class TensorFlowFramework(Common):
    """See hvdlite.core.framework.Framework. A tensor in host memory is a numpy array here."""

    def check(self, tensor: Any) -> None:
        """TypeError or ValueError with a sentence, if this cannot be communicated."""
        if isinstance(tensor, tf.IndexedSlices):
            raise ValueError(
                "tf.IndexedSlices cannot be communicated like this: use hvd.allreduce, or "
                "tf.convert_to_tensor(slices)"
            )
        if not tf.is_tensor(tensor):
            raise TypeError(f"expected a tf.Tensor, got {type(tensor).__name__}")
        if tensor.dtype not in SUPPORTED:
            raise ValueError(f"Tensor type {tensor.dtype.name} is not supported.")

    def lend(self, tensor: Any, in_place: bool = False) -> np.ndarray[Any, Any]:
        self.check(tensor)
        # The tensor's own memory where that is the host's. numpy refuses a scalar of bfloat16.
        return np.asarray(tensor if tensor.shape.rank else tensor.numpy())

    def empty_like(self, host: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return _empty(host.shape, host.dtype)

    def deliver(self, host: np.ndarray[Any, Any], like: Any) -> Any:
        return self.adopt(host, like)

    def write_back(self, host: np.ndarray[Any, Any], tensor: Any) -> Any:
        raise TypeError("tensors of TensorFlow do not change; assign the result to a tf.Variable")

    def adopt(self, array: np.ndarray[Any, Any], like: Any) -> Any:
        """The array's own memory as a tensor; it must be aligned, as that of empty_like() and of
        the core is."""
        if like.dtype == tf.bfloat16:  # which numpy cannot hand on
            return tf.bitcast(
                tf.experimental.dlpack.from_dlpack(array.view(np.int16).__dlpack__()), tf.bfloat16
            )
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())

    def integers(self, values: Sequence[int], like: Any) -> Any:
        return tf.constant(list(values), tf.int32)

    def lengthened(self, tensor: Any, rows: Any) -> Any:
        if isinstance(rows, int) and tensor.shape[0] == rows:
            return tensor  # whose shape stays known, as XLA needs it
        missing = tf.concat([[rows - tf.shape(tensor)[0]], tf.shape(tensor)[1:]], axis=0)
        return tf.concat([tensor, tf.zeros(missing, tensor.dtype)], axis=0)

    def scaled(self, tensor: Any, factor: float) -> Any:
        return tensor * tf.cast(factor, tensor.dtype)

    def is_floating(self, tensor: Any) -> bool:
        return bool(tensor.dtype.is_floating)

    def cast(self, tensor: Any, dtype: Any) -> Any:
        return tf.cast(tensor, dtype)

    def differentiable(self, rule: Rule, tensors: Sequence[Any]) -> tuple[Any, ...]:
        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def record(*given: Any) -> Any:
            with in_tensorflows_words():
                results = rule.forward(given)
            last = len(results) - rule.constants

            def backward(*gradients: Any) -> Any:
                return list(rule.backward(gradients[:last]))

            return list(results), backward

        return tuple(record(*tensors))


def _empty(shape: Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def with_shapes(call: Call, results: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    """Nodes of a graph with what is known of their shapes: the tensors', maybe but for the number
    of rows."""
    for result, tensor in zip(results, tensors, strict=False):
        if call.operation.result is SAME:
            result.set_shape(tensor.shape)
        elif tensor.shape.rank is not None:
            result.set_shape([None, *tensor.shape[1:]])
    for received in results[len(tensors) :]:  # of an alltoall
        received.set_shape([None])
    return list(results)


FRAMEWORK = TensorFlowFramework()
