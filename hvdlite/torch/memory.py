"""Tensors in memory that the ranks of a host share."""

from __future__ import annotations

from typing import Any

import torch

from hvdlite.core import engine

__all__ = ["empty", "in_shared_memory"]


def empty(*size: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    """torch.empty() in memory that the ranks of this host share: see hvdlite.empty().

    The tensor is on the CPU. torch cannot enlarge it in place (resize_).
    """
    like = torch.empty(*size, dtype=dtype, device="meta")
    block = engine.pool_allocate(like.nbytes)
    if block is None:
        return torch.empty(*size, dtype=dtype, device="cpu")
    return torch.frombuffer(block, dtype=like.dtype).view(like.shape)


def in_shared_memory(tensor: torch.Tensor) -> bool:
    """Whether the tensor lies in the memory that the ranks of this host share."""
    return tensor.device.type == "cpu" and engine.pool_offset(tensor.data_ptr()) >= 0
