"""JAX's primitives for compressors with memory: at once, and in compiled programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from hvdlite.adapter.compression.algebra import Arrays, NotLent
from hvdlite.jax import trace

Array = Any


class JaxAlgebra(NotLent, Arrays):
    """See hvdlite.adapter.compression.algebra.Algebra."""

    def is_tracing(self) -> bool:
        return trace.is_tracing()

    def flat(self, tensor: Array) -> Array:
        return jnp.reshape(tensor, -1).astype(jnp.float32)

    def like(self, array: Array, tensor: Array) -> Array:
        return array.reshape(tensor.shape).astype(tensor.dtype)

    def zeros(self, shape: Sequence[int], like: Array) -> Array:
        return jnp.zeros(shape, jnp.float32)

    def from_core(self, array: Array, like: Array) -> Array:
        return jnp.asarray(array)

    def constant(self, values: Any, like: Array) -> Array:
        return jnp.asarray(values, jnp.float32)

    def reshaped(self, array: Array, shape: Sequence[int]) -> Array:
        return array.reshape(shape)

    def total(self, array: Array) -> Array:
        return array.sum()

    def root(self, array: Array) -> Array:
        return jnp.sqrt(array)

    def least(self, array: Array, bound: float) -> Array:
        return jnp.minimum(array, bound)

    def largest(self, array: Array, count: int) -> Array:
        # top_k takes NaN for larger than all numbers, too
        return jax.lax.top_k(jnp.abs(array), count)[1].astype(jnp.int32)

    def added_at(self, array: Array, positions: Array, values: Array) -> Array:
        return array.at[positions].add(values, unique_indices=True)

    def cleared_at(self, array: Array, positions: Array) -> Array:
        return array.at[positions].set(0.0, unique_indices=True)

    def product(self, a: Array, b: Array) -> Array:
        return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)

    def orthogonal(self, a: Array) -> Array:
        return jnp.linalg.qr(a)[0]

    def count(self, array: Array) -> int:
        return int(array.size)

    def chosen(self, condition: Array, yes: Array, no: Array) -> Array:
        return jnp.where(condition, yes, no)

    def is_finite(self, number: Array) -> Array:
        return jnp.isfinite(number)


ALGEBRA = JaxAlgebra()


def algebra() -> JaxAlgebra:
    """By name, so that a compressor can be pickled."""
    return ALGEBRA
