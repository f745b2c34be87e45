"""Arrays in memory that the ranks of a host share."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from hvdlite.core import engine

__all__ = ["empty", "in_shared_memory"]

_NO_BYTES = np.dtype([])  # for numpy's own judgement of a shape


def empty(shape: Any, dtype: Any = "float32") -> np.ndarray[Any, Any]:
    """numpy.empty() in memory that the ranks of this host share.

    allreduce_() reduces such an array where it lies, which takes less than half of the time for
    large arrays. All ranks of the host must allocate theirs here. The memory lives as long as an
    array or tensor refers to it, also after shutdown(). A forked child has a private copy.

    The array is an ordinary one where no memory can be shared: before init(), for a rank alone on
    its host, below 16 KiB, without memory, with HVDLITE_GRADIENT_POOL=0 or beyond
    HVDLITE_GRADIENT_POOL_BYTES. It can be used in the same way. in_shared_memory() tells which it
    is. An array of a job that has failed is not shared in the next job.
    """
    kind = np.dtype(dtype)
    bytes = math.prod(np.empty(shape, _NO_BYTES).shape) * kind.itemsize
    can_share = 0 < bytes <= sys.maxsize and not kind.hasobject
    block = engine.pool_allocate(bytes) if can_share else None
    return np.empty(shape, kind) if block is None else np.ndarray(shape, kind, memoryview(block))


def in_shared_memory(tensor: Any) -> bool:
    """Whether an array, or an object with DLPack, lies in the memory that the ranks of this host
    share. allreduce_() is faster if it does on all of them."""
    array = tensor if isinstance(tensor, np.ndarray) else np.from_dlpack(tensor)
    return engine.pool_offset(array.__array_interface__["data"][0]) >= 0
