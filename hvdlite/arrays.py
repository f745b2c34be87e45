"""Arrays that collectives take: numpy's, and everything that speaks DLPack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from hvdlite import _core

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
    """`result` as the kind of array that `tensor` is. For host memory the core hands bfloat16 over as the int16 of the same bits."""
    if result is None:
        return None
    if isinstance(result, _core.DeviceArray):
        from_dlpack = _from_dlpack_of(tensor)
        return from_dlpack(result) if from_dlpack else result
    if not isinstance(tensor, np.ndarray):
        from_dlpack = _from_dlpack_of(tensor)
        if from_dlpack is None:
            return result
        result = from_dlpack(result)
    return result if result.dtype == tensor.dtype else result.view(tensor.dtype)


def _from_dlpack_of(tensor: Tensor) -> Callable[[Any], Any] | None:
    package = sys.modules.get(type(tensor).__module__.partition(".")[0])
    if package is not None and package.__name__ == "jaxlib":
        package = sys.modules.get("jax.numpy")
    from_dlpack = getattr(package, "from_dlpack", None)
    return from_dlpack if callable(from_dlpack) else None
