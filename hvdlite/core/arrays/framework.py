"""numpy arrays and objects with DLPack as a framework: see hvdlite/core/framework.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hvdlite.core import engine

Tensor = Any  # a numpy array, or an object with __dlpack__
Array = np.ndarray[Any, Any]

_NUMBERS = (int, float, np.generic, list, tuple)


class ArrayFramework:
    mutable = object

    def shape(self, tensor: Tensor) -> Sequence[int]:
        return np.shape(tensor)

    def lend(self, tensor: Tensor, in_place: bool = False) -> Tensor:
        if in_place:
            _check_writable(tensor)
        if isinstance(tensor, np.ndarray):
            return tensor if tensor.flags.c_contiguous else tensor.copy(order="C")
        if isinstance(tensor, _NUMBERS):
            return np.array(tensor)
        contiguous = getattr(tensor, "contiguous", None)  # torch
        return contiguous() if callable(contiguous) else tensor

    def extent(self, host: Tensor) -> tuple[int, int]:
        if isinstance(host, np.ndarray):
            start = host.__array_interface__["data"][0]
        elif hasattr(host, "data_ptr"):  # torch
            start = host.data_ptr()
        else:
            return 0, 0
        return start, start + host.nbytes

    def copied(self, host: Tensor) -> Tensor:
        return host.copy() if isinstance(host, np.ndarray) else host.clone()

    def empty_like(self, host: Tensor) -> Array | None:
        # None: the core allocates the result, which saves a detour through DLPack.
        return np.empty(host.shape, host.dtype) if isinstance(host, np.ndarray) else None

    def deliver(self, host: Tensor, like: Tensor) -> Tensor:
        return host

    def write_back(self, host: Tensor, tensor: Tensor) -> Tensor:
        if host is not tensor:
            tensor[...] = host
        return tensor

    def adopt(self, array: Any, like: Tensor) -> Any:
        """Returns the array as the kind of array that `like` is; for numbers and lists, as
        numpy's."""
        if isinstance(array, engine.DeviceArray):
            from_dlpack = _from_dlpack_of(like)
            return from_dlpack(array) if from_dlpack else array
        if not isinstance(like, np.ndarray):
            from_dlpack = _from_dlpack_of(like)
            if from_dlpack is None:
                return array
            array = from_dlpack(array)
        return array if array.dtype == like.dtype else array.view(like.dtype)

    def integers(self, values: Sequence[int], like: Tensor | None) -> Array:
        return np.array(values, np.int32)


def _check_writable(tensor: Tensor) -> None:
    if isinstance(tensor, _NUMBERS):
        raise TypeError(
            f"an in-place operation needs a tensor to write into, not {type(tensor).__name__}"
        )
    if isinstance(tensor, np.ndarray) and not tensor.flags.writeable:
        raise ValueError(
            "the tensor is read-only, so the result cannot be written into it; pass a copy, or use "
            "the form without _"
        )


def _from_dlpack_of(tensor: Tensor) -> Callable[[Any], Any] | None:
    package = sys.modules.get(type(tensor).__module__.partition(".")[0])
    if package is not None and package.__name__ == "jaxlib":
        package = sys.modules.get("jax.numpy")
    from_dlpack = getattr(package, "from_dlpack", None)
    return from_dlpack if callable(from_dlpack) else None
