"""Arrays that collectives take: numpy's, and everything that speaks DLPack."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

Tensor = Any  # a numpy array, or an object with __dlpack__
Array = np.ndarray[Any, Any]


def contiguous(tensor: Tensor) -> Tensor:
    """The tensor itself, or a contiguous copy."""
    if isinstance(tensor, np.ndarray):
        return tensor if tensor.flags.c_contiguous else tensor.copy(order="C")
    if isinstance(tensor, (int, float, bool, np.generic, list, tuple)):
        return np.array(tensor)
    contiguous = getattr(tensor, "contiguous", None)  # torch
    return contiguous() if callable(contiguous) else tensor


def empty_like(tensor: Tensor) -> Array | None:
    # None: the library allocates, which spares a detour through DLPack.
    return np.empty(tensor.shape, tensor.dtype) if isinstance(tensor, np.ndarray) else None


def own_kind(tensor: Tensor, result: Any) -> Any:
    """`result` as the kind of array that `tensor` is. The core hands bfloat16 over as the int16 of the same bits."""
    if result is None:
        return None
    if not isinstance(tensor, np.ndarray):
        package = sys.modules.get(type(tensor).__module__.partition(".")[0])
        if package is not None and package.__name__ == "jaxlib":
            package = sys.modules.get("jax.numpy")
        from_dlpack = getattr(package, "from_dlpack", None)
        if not callable(from_dlpack):
            return result
        result = from_dlpack(result)
    return result if result.dtype == tensor.dtype else result.view(tensor.dtype)
