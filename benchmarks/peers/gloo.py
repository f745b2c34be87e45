"""torch.distributed over gloo."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def start() -> tuple[int, int]:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def buffer(dtype: str, count: int) -> Any:
    return torch.full((count,), 0, dtype=getattr(torch, dtype))


def fill(tensor: Any, value: float) -> None:
    tensor[:] = value


def first(tensor: Any) -> float:
    return float(tensor[0])


def allreduce(tensor: Any, name: str) -> None:
    dist.all_reduce(tensor)


def step(tensors: dict[str, Any]) -> None:
    for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors.values()]:
        work.wait()


def stop() -> None:
    dist.destroy_process_group()
