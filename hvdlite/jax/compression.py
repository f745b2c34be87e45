"""Compression for JAX: hvd.Compression.none, .fp16 and .bf16, and the class to derive others
from."""

from __future__ import annotations

import jax.numpy as jnp

from hvdlite.adapter.compression import Cast, Compressor
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
