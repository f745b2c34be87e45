"""What all adapters share: every operation, gradient rule and policy, once, over a Framework of
primitives.

Nothing here knows a framework: `hvdlite/torch`, `tensorflow`, `jax` and `keras` bring the
primitives and the signatures.
"""
