"""Horovod's API for TensorFlow 2."""
