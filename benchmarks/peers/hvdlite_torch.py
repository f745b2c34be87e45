"""hvdlite.torch on torch tensors: what a training program calls."""

from __future__ import annotations

from typing import Any

import torch

import hvdlite.torch as hvd
from peers import hvdlite as numpys
from peers.gloo import buffer, fill, first

__all__ = ["allreduce", "buffer", "fill", "first", "start", "step", "stop"]


def start() -> tuple[int, int]:
    torch.set_num_threads(1)
    return numpys.start()


def allreduce(tensor: Any, name: str) -> None:
    hvd.allreduce_(tensor, op=hvd.Sum, name=name)


def step(tensors: dict[str, Any]) -> None:
    for handle in [
        hvd.allreduce_async_(tensor, op=hvd.Sum, name=name) for name, tensor in tensors.items()
    ]:
        hvd.synchronize(handle)


stop = numpys.stop
