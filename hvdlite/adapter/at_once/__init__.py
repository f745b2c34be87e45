"""Reduces all gradients of a step together (TensorFlow, Keras, JAX), also in a compiled step.

reduction     START HERE: from this rank's gradients to those of all ranks
compressing   the same with a compressor that has a memory
accumulation  sums over several backward passes
primitives    what a framework brings
"""
