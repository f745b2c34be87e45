"""Compression for JAX: hvd.Compression, and the class to derive others from.

algebra           START HERE: JAX's primitives for compressors with memory
backend           their rounds over all gradients of a step
transformation    an optimizer whose state has their memory
"""

from __future__ import annotations

import jax.numpy as jnp

from hvdlite.adapter.compression import Compressor, choices
from hvdlite.jax.compression.algebra import algebra
from hvdlite.jax.framework import FRAMEWORK

__all__ = ["Compression", "Compressor"]

Compression = choices(FRAMEWORK, jnp.dtype(jnp.float16), jnp.dtype(jnp.bfloat16), algebra)
