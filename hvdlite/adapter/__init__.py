"""What all adapters share: every operation, gradient rule and policy, once, over a Framework of
primitives.

Nothing here knows a framework: `hvdlite/torch`, `tensorflow`, `jax` and `keras` bring the
primitives and the signatures.

There are two roads from a rank's gradients to those of all ranks. torch computes gradients one by
one and takes `hooks`; TensorFlow, Keras and JAX have all gradients of a step and take `at_once`.
"""
