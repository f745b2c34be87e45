"""numpy's primitives for compressors with memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hvdlite.adapter.compression.algebra import Arrays, likely

Array = Any


class NumpyAlgebra(Arrays):
    """See hvdlite.adapter.compression.algebra.Algebra."""

    def flat(self, tensor: Any) -> Array:
        return np.asarray(tensor).astype(np.float32, copy=False).reshape(-1)

    def like(self, array: Array, tensor: Any) -> Array:
        return array.reshape(tensor.shape).astype(tensor.dtype, copy=False)

    def zeros(self, shape: Sequence[int], like: Array) -> Array:
        return np.zeros(shape, np.float32)

    def zeros_for_core(self, like: Array) -> Array:
        return np.zeros(like.shape, np.float32)

    def for_core(self, array: Array) -> Array:
        return np.ascontiguousarray(array)

    def writable(self, residual: Array) -> Array:
        return residual

    def from_core(self, array: Array, like: Array) -> Array:
        return array

    def is_lent(self, array: Array) -> bool:
        return bool(array.flags.c_contiguous)

    def room(self, count: int) -> Array:
        return np.empty(count, np.float32)

    def constant(self, values: Any, like: Array) -> Array:
        return np.array(values, np.float32)

    def copied(self, array: Array) -> Array:
        return array.copy()

    def reshaped(self, array: Array, shape: Sequence[int]) -> Array:
        return array.reshape(shape)

    def total(self, array: Array) -> Array:
        return np.asarray(array.sum())

    def root(self, array: Array) -> Array:
        return np.sqrt(array)

    def least(self, array: Array, bound: float) -> Array:
        return np.minimum(array, np.float32(bound))

    def largest(self, array: Array, count: int) -> Array:
        magnitudes = np.abs(array)
        candidates = likely(
            magnitudes, count, lambda some, rank: np.partition(some, -rank)[-rank], np.flatnonzero
        )
        if candidates is None:
            return np.argpartition(magnitudes, -count)[-count:].astype(np.int32)
        chosen = np.argpartition(magnitudes[candidates], -count)[-count:]
        return candidates[chosen].astype(np.int32)

    def orthogonal(self, a: Array) -> Array:
        return np.linalg.qr(a)[0]

    def count(self, array: Array) -> int:
        return int(array.size)

    def chosen(self, condition: Array, yes: Array, no: Array) -> Array:
        return yes if condition else no

    def is_finite(self, number: Array) -> Array:
        return np.isfinite(number)


ALGEBRA = NumpyAlgebra()
