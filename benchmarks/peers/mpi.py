"""An MPI library through mpi4py; the job's variables choose which."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

from peers import Unsupported

_world = MPI.COMM_WORLD


def start() -> tuple[int, int]:
    return _world.rank, _world.size


def buffer(dtype: str, count: int) -> Any:
    if dtype == "bfloat16":
        raise Unsupported("MPI has no bfloat16")
    return np.full(count, 0, dtype)


def fill(tensor: Any, value: float) -> None:
    tensor[:] = value


def first(tensor: Any) -> float:
    return float(tensor[0])


def allreduce(tensor: Any, name: str) -> None:
    _world.Allreduce(MPI.IN_PLACE, tensor)


def step(tensors: dict[str, Any]) -> None:
    # Blocking calls: Iallreduce is slower in both libraries.
    for tensor in tensors.values():
        _world.Allreduce(MPI.IN_PLACE, tensor)


def stop() -> None:
    MPI.Finalize()
