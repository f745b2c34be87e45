"""hvdlite on numpy arrays (bfloat16: on torch tensors, numpy has none). The job's variables choose
shm or TCP."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import hvdlite as hvd


def start() -> tuple[int, int]:
    if rank := os.environ.get("BENCHMARK_HOST_PER_RANK"):  # the name of the launcher's variable
        os.environ["HVDLITE_HOST_ID"] = os.environ[rank]
    hvd.init()
    return hvd.rank(), hvd.size()


def buffer(dtype: str, count: int) -> Any:
    if dtype == "bfloat16":
        import torch

        return torch.full((count,), 0, dtype=torch.bfloat16)
    return np.full(count, 0, dtype)


def fill(tensor: Any, value: float) -> None:
    tensor[:] = value


def first(tensor: Any) -> float:
    return float(tensor[0])


def allreduce(tensor: Any, name: str) -> None:
    hvd.allreduce_(tensor, op=hvd.Sum, name=name)


def step(tensors: dict[str, Any]) -> None:
    for handle in [
        hvd.allreduce_async_(tensor, op=hvd.Sum, name=name) for name, tensor in tensors.items()
    ]:
        hvd.synchronize(handle)


def stop() -> None:
    hvd.shutdown()
