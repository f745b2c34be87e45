"""Compression for JAX: hvd.Compression, and the class to derive others from."""

from __future__ import annotations

import jax.numpy as jnp

from hvdlite.adapter.compression import Compressor, choices
from hvdlite.jax.compression.algebra import algebra
from hvdlite.jax.framework import FRAMEWORK

__all__ = ["Compression", "Compressor"]

Compression = choices(FRAMEWORK, jnp.dtype(jnp.float16), jnp.dtype(jnp.bfloat16), algebra)
