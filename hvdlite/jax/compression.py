"""Compression for JAX: hvd.Compression.none, .fp16 and .bf16, and the class to derive others from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from hvdlite.adapter.compression import Cast, Compressor, Settled
from hvdlite.jax.framework import FRAMEWORK

__all__ = ["Compression", "Compressor"]


class Compression:
    """How gradients are compressed on their way."""

    #: as they are
    none = Compressor()
    #: floating-point arrays as float16
    fp16 = Cast(FRAMEWORK, jnp.dtype(jnp.float16))
    #: floating-point arrays as bfloat16: float32's range, less precision
    bf16 = Cast(FRAMEWORK, jnp.dtype(jnp.bfloat16))


def compressed(
    compression: Any, arrays: list[Any], name: str | None, send: Callable[[list[Any]], Sequence[Any]]
) -> list[Any]:
    """send(arrays), compressed on their way."""
    settled = Settled(compression)
    if settled.is_none:
        return list(send(arrays))
    packed = [settled.compress(array, name) for array in arrays]
    received = send([payload for payload, _ in packed])
    return [settled.decompress(array, context) for array, (_, context) in zip(received, packed, strict=True)]
