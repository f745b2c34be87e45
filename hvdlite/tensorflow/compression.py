"""Compression for TensorFlow: hvd.Compression.none, .fp16 and .bf16, and the class to derive others
from."""

from __future__ import annotations

import tensorflow as tf

from hvdlite.adapter.compression import Cast, Compressor, Nothing, as_class
from hvdlite.tensorflow.framework import FRAMEWORK

__all__ = ["Compression", "Compressor", "FP16Compressor", "NoneCompressor"]


class Compression:
    """How gradients are compressed on their way."""

    #: as they are
    none = Compressor()
    #: floating-point tensors as float16
    fp16 = Cast(FRAMEWORK, tf.float16)
    #: floating-point tensors as bfloat16: float32's range, less precision
    bf16 = Cast(FRAMEWORK, tf.bfloat16)


# Horovod's classes, which programs import: their functions are called without an object.
NoneCompressor = Nothing
FP16Compressor = as_class("FP16Compressor", Compression.fp16)
