"""Horovod's operations for JAX: on arrays and pytrees, at once and inside jax.jit."""
