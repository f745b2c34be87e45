"""Borrows the memory of a Python object without a copy and without knowing any framework, as
csrc/bindings/tensors.h does."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_uint64, c_void_p
from typing import Any, NamedTuple

import numpy as np

from hvdlite.core.by_ctypes.interface import Tensor, c, names, numbers

_python = ctypes.pythonapi


class DlpackTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    ]  # fmt: skip


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DlpackTensor), ("context", c_void_p), ("deleter", c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", c_void_p),
        ("deleter", c_void_p), ("flags", c_uint64), ("tensor", DlpackTensor),
    ]  # fmt: skip


class Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
        *((name, c_void_p) for name in ("older", "allocate", "managed", "object")),
        ("tensor_from_object", ctypes.PYFUNCTYPE(c_int32, ctypes.py_object, c_void_p)),
        ("current_stream", ctypes.PYFUNCTYPE(c_int32, c_int32, c_int32, POINTER(c_void_p))),
    ]  # fmt: skip


_CPU, CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13  # DLPack's devices
_GPUS = (CUDA, _CUDA_MANAGED)
LEGACY_STREAM = 1
_READ_ONLY = 1
# DLPack's kinds of types, and numpy's, whose dtypes hvdlite has
KINDS = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "b"}


def _dtypes() -> dict[tuple[str, int], int]:
    """By kind and bytes."""
    found: dict[tuple[str, int], int] = {}
    for number, name in enumerate(names(c.dtype_name)):
        kind = "bf" if name == "bfloat16" else np.dtype(name).kind
        found[str(kind), int(c.dtype_size(number))] = number
    return found


DTYPES = _dtypes()
DTYPE_NAMES = [*names(c.dtype_name)]
BFLOAT16 = DTYPES["bf", 2]
FLOAT32 = DTYPES["f", 4]


class Lent(NamedTuple):
    tensor: Tensor
    contiguous: bool
    writable: bool
    owner: Any = None  # keeps the memory alive if the object does not
    # On a GPU: the stream whose work produces the values, and what reports the current stream.
    producer: int | None = None
    exchange: Exchange | None = None


def _tensor(data: int, dtype: int, shape: Sequence[int], gpu: int | None = None) -> Tensor:
    on_gpu, index = (0, 0) if gpu is None else (1, gpu)
    return Tensor(data, dtype, len(shape), numbers(c_int64, shape), on_gpu, index)


def elements(tensor: Tensor) -> int:
    return math.prod(tensor.shape[: tensor.ndim])


def _lend_array(array: np.ndarray[Any, Any]) -> Lent:
    dtype = array.dtype
    kind = "bf" if dtype.kind == "V" and dtype.name == "bfloat16" else dtype.kind
    number = None if dtype.byteorder == ">" else DTYPES.get((kind, dtype.itemsize))
    if number is None:
        raise TypeError(
            f"arrays of dtype {dtype} cannot be communicated; cast to bool, an integer type, "
            "float16, bfloat16, float32 or float64"
        )
    flags = array.flags
    tensor = _tensor(array.__array_interface__["data"][0], number, array.shape)
    return Lent(tensor, flags.c_contiguous, flags.writeable)


def _is_contiguous(lent: DlpackTensor, shape: Sequence[int]) -> bool:
    if not lent.strides or 0 in shape:
        return True
    expected = 1
    for length, stride in zip(reversed(shape), reversed(lent.strides[: lent.ndim]), strict=True):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def _lend_dlpack(lent: DlpackTensor, writable: bool, **more: Any) -> Lent:
    number = DTYPES.get((KINDS.get(lent.code, ""), lent.bits // 8))
    if number is None or lent.lanes != 1 or lent.bits % 8:
        raise TypeError(
            "a tensor of this dtype cannot be communicated (complex, packed or quantised?)"
        )
    host = lent.device_type in (_CPU, _CUDA_HOST)
    if not host and lent.device_type not in _GPUS:
        raise NotImplementedError(
            "hvdlite communicates tensors in host memory and on CUDA GPUs; copy the tensor to the "
            "CPU first"
        )
    shape = lent.shape[: lent.ndim]
    data = (lent.data or 0) + lent.byte_offset
    tensor = _tensor(data, number, shape, None if host else lent.device_id)
    return Lent(tensor, _is_contiguous(lent, shape), writable, **more)


_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, c_char_p)(
    ("PyCapsule_IsValid", _python)
)
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, c_char_p)(
    ("PyCapsule_GetPointer", _python)
)


def _capsule(object: Any, **arguments: Any) -> Any:
    """Stays unconsumed: its own destructor releases the tensor."""
    try:
        return object.__dlpack__(**arguments, max_version=(1, 0))
    except TypeError:  # from before that version, and before its keyword
        return object.__dlpack__(**arguments)


def _content(capsule: Any) -> tuple[DlpackTensor, bool]:
    """And whether it may be written."""
    if _is_capsule(capsule, b"dltensor"):
        return Managed.from_address(_pointer_of(capsule, b"dltensor")).tensor, True
    if not _is_capsule(capsule, b"dltensor_versioned"):
        raise TypeError("__dlpack__() returned something that is not a DLPack capsule")
    versioned = Versioned.from_address(_pointer_of(capsule, b"dltensor_versioned"))
    return versioned.tensor, not versioned.flags & _READ_ONLY


def _lend_capsule(object: Any) -> Lent:
    capsule = _capsule(object)
    lent, writable = _content(capsule)
    if lent.device_type not in _GPUS:
        return _lend_dlpack(lent, writable, owner=capsule)
    # Again, now with the promise that the values are ready for the legacy default stream.
    capsule = _capsule(object, stream=LEGACY_STREAM)
    lent, writable = _content(capsule)
    return _lend_dlpack(lent, writable, owner=capsule, producer=LEGACY_STREAM)


_exchanges: dict[type, Exchange | None] = {}
_MOST_TYPES = 256


def exchange_of(kind: type) -> Exchange | None:
    """The table of C functions that torch attaches to its tensor type, as DLPack 1.3 says."""
    try:
        return _exchanges[kind]
    except KeyError:
        pass
    found = None
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if capsule is not None and _is_capsule(capsule, b"dlpack_exchange_api"):
        table = Exchange.from_address(_pointer_of(capsule, b"dlpack_exchange_api"))
        found = table if table.major == 1 and table.tensor_from_object else None
    if len(_exchanges) < _MOST_TYPES:
        _exchanges[kind] = found
    return found


def current_stream(exchange: Exchange, device: int) -> int | None:
    stream = c_void_p()
    if not exchange.current_stream:
        return None
    try:
        failed = exchange.current_stream(CUDA, device, byref(stream))
    except Exception:
        return None
    return None if failed else stream.value or 0


def _lend_by_exchange(object: Any, exchange: Exchange) -> Lent | None:
    lent = DlpackTensor()
    try:
        if exchange.tensor_from_object(object, byref(lent)):
            return None
    except Exception:
        return None
    on_gpu = lent.device_type in _GPUS
    stream = current_stream(exchange, lent.device_id) if on_gpu else None
    if on_gpu and stream is None:
        return None
    reports = None if lent.device_type == _CPU else exchange
    return _lend_dlpack(lent, True, producer=stream, exchange=reports)


def lend(object: Any) -> Lent:
    if isinstance(object, np.ndarray):
        return _lend_array(object)
    exchange = exchange_of(type(object))
    if exchange is not None and (lent := _lend_by_exchange(object, exchange)):
        return lent
    if hasattr(object, "__dlpack__"):
        return _lend_capsule(object)
    raise TypeError(
        f"expected a numpy array or an object with __dlpack__, got {type(object).__name__}"
    )
