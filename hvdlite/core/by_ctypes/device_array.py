"""A result on a GPU, for a framework's from_dlpack()."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from typing import Any

from hvdlite.core.by_ctypes.interface import c, check, numbers
from hvdlite.core.by_ctypes.tensors import (
    CUDA,
    DTYPE_NAMES,
    DTYPES,
    KINDS,
    LEGACY_STREAM,
    DlpackTensor,
    Managed,
    Versioned,
)  # fmt: skip

_python = ctypes.pythonapi
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, ctypes.c_char_p, c_void_p)(
    ("PyCapsule_New", _python)
)
# Of a capsule that is being destroyed, so by its address.
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, c_void_p)(("PyCapsule_GetName", _python))
_content_of = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python)
)

# What capsules hold, by its address, until the consumer calls the deleter.
_lendings: dict[int, tuple[Any, ...]] = {}


def _let_go(held: int) -> None:
    _lendings.pop(held, None)


def _destroy(capsule: int) -> None:
    """Of a capsule that was not consumed, which has kept its name."""
    name = _name_of(capsule)
    if name.startswith(b"dltensor"):
        _lendings.pop(_content_of(capsule, name), None)


_DELETER = ctypes.CFUNCTYPE(None, c_void_p)(_let_go)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, c_void_p)(_destroy)
# Frameworks keep these as long as the process lives.
for _callback in (_DELETER, _DESTRUCTOR):
    _python.Py_IncRef(ctypes.py_object(_callback))


class _Memory:
    """Shared by the array and everything made from it."""

    def __init__(self, memory: int) -> None:
        self.address = memory

    def __del__(self) -> None:
        c.free_memory(self.address)


class DeviceArray:
    """A result on a GPU, for a framework's from_dlpack()."""

    def __init__(
        self, memory: int | None, data: int, device: int, dtype: int, shape: tuple[int, ...]
    ) -> None:
        assert memory is not None
        self._memory = _Memory(memory)
        self._data = data
        self._device = device
        self._dtype = dtype
        self.shape = shape

    @property
    def dtype(self) -> str:
        """Its name: "bfloat16"."""
        return DTYPE_NAMES[self._dtype]

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self._device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """As in the array API standard: without a stream, the consumer uses the legacy default
        stream. -1: the consumer synchronizes itself."""
        if stream == 0:
            raise ValueError("stream 0 can mean two streams in CUDA; pass 1 or 2")
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("hvdlite cannot copy or move this array; do so in the framework")
        if stream != -1:
            consumer = LEGACY_STREAM if stream is None else stream
            check(c.follow_memory(self._memory.address, consumer))
        if max_version is not None and max_version[0] >= 1:
            return self._capsule(Versioned(major=1, minor=0), b"dltensor_versioned")
        return self._capsule(Managed(), b"dltensor")

    def _capsule(self, held: Any, name: bytes) -> Any:
        kind, size = next(key for key, number in DTYPES.items() if number == self._dtype)
        strides = [1] * len(self.shape)
        for i in reversed(range(len(self.shape) - 1)):
            strides[i] = strides[i + 1] * self.shape[i + 1]
        shape_c, strides_c = numbers(c_int64, self.shape), numbers(c_int64, strides)
        held.tensor = DlpackTensor(
            data=self._data,
            device_type=CUDA,
            device_id=self._device,
            ndim=len(self.shape),
            code=next(code for code, known in KINDS.items() if known == kind),
            bits=8 * size,
            lanes=1,
            shape=shape_c,
            strides=strides_c,
        )
        address = ctypes.addressof(held)
        held.context = address
        held.deleter = ctypes.cast(_DELETER, c_void_p).value
        _lendings[address] = (held, shape_c, strides_c, self._memory, name)
        return _new_capsule(address, name, ctypes.cast(_DESTRUCTOR, c_void_p).value)


def check_gpus() -> None:
    check(c.can_use_gpus())
