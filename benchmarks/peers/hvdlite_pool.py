"""hvdlite.torch on gradients that lie in memory which the ranks share: hvdlite has torch allocate
them there, as those of hvd.DistributedOptimizer, and reduces them without a copy."""

from __future__ import annotations

from typing import Any

import torch

from hvdlite.adapter import pool
from hvdlite.torch.pool import use
from peers import Unsupported, hvdlite_torch
from peers.gloo import fill, first
from peers.hvdlite_torch import start, step, stop

__all__ = ["allreduce", "buffer", "fill", "first", "start", "step", "stop"]

_SMALLEST = 1 << 20  # below, the copies take a small part of the time


class _Program:
    """What the gradients belong to."""


_program = _Program()


def buffer(dtype: str, count: int) -> Any:
    """The gradient of a parameter."""
    weight = torch.zeros(count, dtype=getattr(torch, dtype), requires_grad=True)
    use([weight], _program)
    (gradient,) = torch.autograd.grad((weight * 0.0).sum(), weight)
    if gradient.nbytes >= pool.SMALLEST and not pool.contains(gradient.data_ptr()):
        raise Unsupported("torch does not allocate gradients in hvdlite's pool here")
    return gradient


def allreduce(tensor: Any, name: str) -> None:
    if tensor.nbytes < _SMALLEST:
        raise Unsupported("only tensors of 1 MiB and more are measured in the pool")
    hvdlite_torch.allreduce(tensor, name)
