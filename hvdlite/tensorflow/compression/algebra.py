"""TensorFlow's primitives for compressors with memory: eagerly and in graphs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from hvdlite.adapter import xla as calls
from hvdlite.adapter.compression.algebra import NotLent
from hvdlite.adapter.compression.methods import Encoded
from hvdlite.adapter.compression.on_numpy import ALGEBRA as NUMPY
from hvdlite.adapter.compression.rounds import ask_encoded
from hvdlite.core.engine import codecs, run_all
from hvdlite.core.operations import Call
from hvdlite.tensorflow import xla

Array = Any


class TensorFlowAlgebra(NotLent):
    """See hvdlite.adapter.compression.algebra.Algebra."""

    def flat(self, tensor: Array) -> Array:
        return tf.cast(tf.reshape(tensor, [-1]), tf.float32)

    def like(self, array: Array, tensor: Array) -> Array:
        return tf.cast(tf.reshape(array, tf.shape(tensor)), tensor.dtype)

    def zeros(self, shape: Sequence[int], like: Array) -> Array:
        return tf.zeros(shape, tf.float32)

    def from_core(self, array: Array, like: Array) -> Array:
        return tf.constant(array)

    def constant(self, values: Any, like: Array) -> Array:
        return tf.constant(values, tf.float32)

    def is_tracing(self) -> bool:
        return not tf.executing_eagerly()

    def outside(self) -> AbstractContextManager[Any]:
        return tf.init_scope()

    def cell(self, array: Array) -> Any:
        return tf.Variable(array, trainable=False)

    def read(self, cell: Any) -> Array:
        return cell.read_value()

    def write(self, cell: Any, array: Array) -> Any:
        cell.assign(array)
        return cell

    def reshaped(self, array: Array, shape: Sequence[int]) -> Array:
        return tf.reshape(array, shape)

    def total(self, array: Array) -> Array:
        return tf.reduce_sum(array)

    def root(self, array: Array) -> Array:
        return tf.sqrt(array)

    def least(self, array: Array, bound: float) -> Array:
        return tf.minimum(array, bound)

    def largest(self, array: Array, count: int) -> Array:
        # top_k promises nothing for NaN
        magnitudes = tf.abs(array)
        magnitudes = tf.where(tf.math.is_nan(magnitudes), float("inf"), magnitudes)
        return tf.math.top_k(magnitudes, count, sorted=False).indices

    def taken(self, array: Array, positions: Array) -> Array:
        return tf.gather(array, positions)

    def added_at(self, array: Array, positions: Array, values: Array) -> Array:
        return tf.tensor_scatter_nd_add(array, positions[:, None], values)

    def cleared_at(self, array: Array, positions: Array) -> Array:
        nothing = tf.zeros(tf.shape(positions), tf.float32)
        return tf.tensor_scatter_nd_update(array, positions[:, None], nothing)

    def product(self, a: Array, b: Array) -> Array:
        return tf.matmul(a, b)

    def transposed(self, a: Array) -> Array:
        return tf.transpose(a)

    def orthogonal(self, a: Array) -> Array:
        return tf.linalg.qr(a)[0]

    def count(self, array: Array) -> int:
        return int(array.shape.num_elements())

    def chosen(self, condition: Array, yes: Array, no: Array) -> Array:
        return tf.where(condition, yes, no)

    def is_finite(self, number: Array) -> Array:
        return tf.math.is_finite(number)


ALGEBRA = TensorFlowAlgebra()


def algebra() -> TensorFlowAlgebra:
    """By name, so that a compressor can be pickled."""
    return ALGEBRA


# ---- rounds by a codec of the core inside a tf.function: one call of the program that XLA
# compiles, or else one node for all tensors, by way of Python


def in_graph(call: Call, asked: dict[int, Encoded]) -> dict[int, Any]:
    """The answers: sum and residual of each. All are by the same codec."""
    rounds = list(asked.values())
    arrays = [each.array for each in rounds]
    residuals = [each.residual for each in rounds if each.residual is not None]
    emit = _by_xla if xla.is_compiling() else _by_numpy
    made = emit(call, rounds[0], arrays, residuals)
    for result, given in zip(made, [*arrays, *residuals], strict=True):
        result.set_shape(given.shape)
    kept = made[len(arrays) :] or [None] * len(arrays)
    return dict(zip(asked, zip(made[: len(arrays)], kept, strict=True), strict=True))


def _by_xla(call: Call, first: Encoded, arrays: list[Any], residuals: list[Any]) -> list[Any]:
    number, _ = codecs()[first.codec]
    operands = [*arrays, *residuals, tf.cast(first.step, tf.float32)]
    shapes = [xla.static_shape(each, str(call.name)) for each in operands]
    codec = calls.codec_attributes(number, first.parameter, first.seed, len(residuals))
    return xla.node(call, operands, shapes, codec)[:-1]


def _by_numpy(call: Call, first: Encoded, arrays: list[Any], residuals: list[Any]) -> list[Any]:
    def body(step: Any, *given: Any) -> list[Any]:
        own = [each.copy() for each in given[len(arrays) :]] or [None] * len(arrays)
        pending = [
            ask_encoded(
                NUMPY,
                call._replace(name=f"{call.name}.{i}"),
                first._replace(array=array, residual=residual, step=step),
            )
            for i, (array, residual) in enumerate(zip(given, own, strict=False))
        ]
        answers = run_all(pending)
        totals, kept = [total.array for total, _ in answers], [each for _, each in answers]
        return totals + (kept if residuals else [])

    given = [first.step, *arrays, *residuals]
    dtypes = [tf.float32] * (len(arrays) + len(residuals))
    made = tf.numpy_function(body, given, dtypes, stateful=True)
    return list(made) if isinstance(made, (list, tuple)) else [made]
