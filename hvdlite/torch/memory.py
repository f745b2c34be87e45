"""Tensors and gradients in memory that the ranks of a host share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from hvdlite.adapter import pool
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


# ---- what adapter/pool.py must know of torch: no type of torch crosses the border


def _compute(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    parameter = torch.ones(size // 4, dtype=torch.float32, device="cpu", requires_grad=True)
    with torch.enable_grad():
        return torch.autograd.grad((parameter * 2.0).sum(), parameter)[0], parameter.detach()


POOL = pool.Pool(
    pool.Framework(
        module=torch._C.__file__,
        allocator="_ZN3c109alloc_cpuEm",  # c10::alloc_cpu(unsigned long)
        # torch::autograd::get_current_graph_task_id()
        gate="_ZN5torch8autograd25get_current_graph_task_idEv",
        outside=-1,
        compute=_compute,
        address=torch.Tensor.data_ptr,
    )
)


def use(parameters: Iterable[torch.Tensor], owner: object) -> bool:
    """Has the gradients of these parameters allocated in the pool while the owner lives, as soon
    as ranks of this host can share them. Returns whether they can now."""
    return POOL.use(
        (p.numel() * p.element_size() for p in parameters if p.device.type == "cpu"), owner
    )
