"""Compression for torch: hvd.Compression, and the class to derive others from.

algebra     START HERE: torch's primitives for compressors with memory
batched     arithmetic on many gradients at a time
onebit      1-bit Adam
"""

from __future__ import annotations

import torch

from hvdlite.adapter.compression import Compressor, Nothing, as_class, choices
from hvdlite.torch.compression.algebra import algebra
from hvdlite.torch.framework import FRAMEWORK

__all__ = ["Compression", "Compressor", "FP16Compressor", "NoneCompressor"]

Compression = choices(FRAMEWORK, torch.float16, torch.bfloat16, algebra)

# Horovod's classes, which programs import: their functions are called without an object.
NoneCompressor = Nothing
FP16Compressor = as_class("FP16Compressor", Compression.fp16)
