"""Python objects: pickled, then sent as bytes. Ranks of a job unpickle them only after both ends
have proved that they know the job's secret."""

from __future__ import annotations

import io
from typing import Any

import cloudpickle
import numpy as np

from hvdlite.core import engine
from hvdlite.core.arrays import ops
from hvdlite.core.arrays.framework import Array
from hvdlite.core.process_sets import ProcessSet, global_process_set

__all__ = ["allgather_object", "broadcast_object"]


def _to_bytes(obj: Any) -> Array:
    buffer = io.BytesIO()
    cloudpickle.dump(obj, buffer)
    return np.frombuffer(buffer.getbuffer(), np.uint8)


def _from_bytes(data: Array) -> Any:
    return cloudpickle.loads(data.data)


def broadcast_object(obj: Any = None, root_rank: int = 0, name: str | None = None,
                     process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """Returns `root_rank`'s object on every rank. The root gets its own object back; the other
    ranks' `obj` is ignored."""
    prefix = None if name is None else f"{name}."
    is_root = engine.is_root(root_rank)
    data = _to_bytes(obj) if is_root else np.empty(0, np.uint8)
    size = ops.broadcast(
        np.array([data.size], np.int64), root_rank, prefix and prefix + "sz", process_set
    )
    if not is_root:
        data = np.empty(int(size[0]), np.uint8)
    received = ops.broadcast(data, root_rank, prefix and prefix + "t", process_set)
    return obj if is_root else _from_bytes(received)


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Returns the objects of all ranks of the set, in the order of the ranks."""
    prefix = None if name is None else f"{name}."
    data = _to_bytes(obj)
    sizes = ops.allgather(np.array([data.size], np.int64), prefix and prefix + "sz", process_set)
    everything = ops.allgather(data, prefix and prefix + "t", process_set)
    ends = np.cumsum(sizes)
    return [
        _from_bytes(everything[end - size : end]) for end, size in zip(ends, sizes, strict=True)
    ]
