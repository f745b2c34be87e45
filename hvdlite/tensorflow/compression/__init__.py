"""Compression for TensorFlow: hvd.Compression, and the class to derive others from."""

from __future__ import annotations

import tensorflow as tf

from hvdlite.adapter.compression import Compressor, Nothing, as_class, choices
from hvdlite.tensorflow.compression.algebra import algebra
from hvdlite.tensorflow.framework import FRAMEWORK

__all__ = ["Compression", "Compressor", "FP16Compressor", "NoneCompressor"]

Compression = choices(FRAMEWORK, tf.float16, tf.bfloat16, algebra)

# Horovod's classes, which programs import: their functions are called without an object.
NoneCompressor = Nothing
FP16Compressor = as_class("FP16Compressor", Compression.fp16)
