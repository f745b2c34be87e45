"""hvdlite.torch on tensors of hvd.empty(), in memory that the ranks share: they are reduced without
a copy, as are the gradients of hvd.DistributedOptimizer."""

from __future__ import annotations

from typing import Any

import torch

import hvdlite.torch as hvd
from peers import Unsupported, hvdlite_torch
from peers.gloo import fill, first
from peers.hvdlite_torch import start, step, stop

__all__ = ["allreduce", "buffer", "fill", "first", "start", "step", "stop"]

_SMALLEST = 1 << 20  # below, the copies take a small part of the time


def buffer(dtype: str, count: int) -> Any:
    tensor = hvd.empty(count, dtype=getattr(torch, dtype)).zero_()
    if tensor.nbytes >= _SMALLEST and not hvd.in_shared_memory(tensor):
        raise Unsupported("hvdlite shares no memory here")
    return tensor


def allreduce(tensor: Any, name: str) -> None:
    if tensor.nbytes < _SMALLEST:
        raise Unsupported("only tensors of 1 MiB and more are measured in the pool")
    hvdlite_torch.allreduce(tensor, name)
