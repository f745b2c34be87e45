"""Reduces all gradients of a step together (TensorFlow, Keras, JAX).

The step may be a compiled program.

    reduction   START HERE: from this rank's gradients to those of all ranks
    primitives  what a framework brings
"""
