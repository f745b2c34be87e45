"""A framework of our own on the fake GPU (tests/fake_gpu): arrays with a stream, lent and taken by
DLPack.

Programs of the tests import it. Values go in and out by copies on the framework's own stream, and
nothing here waits for anything else: an operation of hvdlite that does not wait for the producer,
or does not hold back the consumer, gives wrong values.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np

CUDA = 2  # DLPack's number of the device type
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Device:
    """The GPU as this process uses it."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.cuda = ctypes.CDLL(os.environ["HVDLITE_CUDA_LIBRARY"])
        self._call("cuInit", 0)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        self._call("cuCtxPushCurrent_v2", context)
        self.stream = ctypes.c_void_p()
        self._call("cuStreamCreateWithPriority", ctypes.byref(self.stream), 1, 0)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.cuda, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} returned {code}")

    def allocate(self, count: int) -> int:
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(count, 1)))
        return address.value

    def copy_in(self, address: int, host: np.ndarray[Any, Any]) -> None:
        pointer = ctypes.c_void_p(host.ctypes.data)
        self._call(
            "cuMemcpyHtoDAsync_v2",
            ctypes.c_uint64(address),
            pointer,
            ctypes.c_size_t(host.nbytes),
            self.stream,
        )

    def copy_out(self, host: np.ndarray[Any, Any], address: int) -> None:
        pointer = ctypes.c_void_p(host.ctypes.data)
        self._call(
            "cuMemcpyDtoHAsync_v2",
            pointer,
            ctypes.c_uint64(address),
            ctypes.c_size_t(host.nbytes),
            self.stream,
        )
        self._call("cuStreamSynchronize", self.stream)

    def let_follow(self, stream: int) -> None:
        """What that stream is given from now on comes after what ours has been given."""
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), 2)
        self._call("cuEventRecord", event, self.stream)
        self._call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
        self._call("cuEventDestroy_v2", event)

    def hold(self, held: bool) -> None:
        """Nothing that the framework's stream has been given, and not begun, happens until it is
        let go."""
        self.cuda.fake_cuda_hold(self.stream, int(held))

    def complaints(self) -> str:
        text = ctypes.create_string_buffer(4096)
        self.cuda.fake_cuda_complaints(text, ctypes.c_size_t(len(text)))
        return text.value.decode()

    def live(self, kind: str) -> int:
        return int(self.cuda.fake_cuda_live(kind.encode()))


_device: Device | None = None
_lent: dict[int, Any] = {}  # what capsules that are out point to, by address


def device(ordinal: int = 0) -> Device:
    """The process's one."""
    global _device
    if _device is None:
        _device = Device(ordinal)
    return _device


class Array:
    """Lent by capsules only, as by frameworks without an exchange table."""

    def __init__(self, values: Any, owner: Any = None, address: int | None = None) -> None:
        self.host = np.ascontiguousarray(values)  # kept: the copy happens some time later
        self.shape = self.host.shape
        self.dtype = self.host.dtype
        self.owner = owner
        self.address = device().allocate(self.host.nbytes) if address is None else address
        if address is None:
            device().copy_in(self.address, self.host)

    def numpy(self) -> np.ndarray[Any, Any]:
        host = np.empty(self.shape, self.dtype)
        device().copy_out(host, self.address)
        return host

    def fill_tensor(self, tensor: _Tensor) -> Any:
        tensor.data, tensor.device_type, tensor.device_id = self.address, CUDA, device().ordinal
        tensor.ndim = len(self.shape)
        tensor.dtype = _DataType(_CODES[self.dtype.kind], 8 * self.dtype.itemsize, 1)
        shape = (ctypes.c_int64 * max(len(self.shape), 1))(*self.shape)
        tensor.shape, tensor.strides, tensor.byte_offset = shape, None, 0
        return shape

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, device().ordinal

    def __dlpack__(self, stream: int | None = None) -> Any:  # of a time before max_version
        if stream != -1:
            device().let_follow(1 if stream is None else stream)
        managed = _Managed()
        shape = self.fill_tensor(managed.tensor)
        managed.deleter = _let_go
        _lent[ctypes.addressof(managed)] = (managed, shape, self)
        return _python.PyCapsule_New(
            ctypes.addressof(managed), b"dltensor", ctypes.cast(_destroy, ctypes.c_void_p)
        )


@_Deleter
def _let_go(managed: Any) -> None:
    _lent.pop(ctypes.addressof(managed.contents), None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destroy(capsule: int) -> None:
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", _python)
    )
    _lent.pop(get(capsule, b"dltensor"), None)


class _Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from_object", ctypes.c_void_p),
        ("object_from_managed", ctypes.c_void_p),
        ("tensor_from_object", ctypes.c_void_p),
        ("current_stream", ctypes.c_void_p),
    ]


_shapes: dict[int, Any] = {}


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))
def _tensor_from_object(array: QuickArray, tensor: Any) -> int:
    array.borrowed = array.fill_tensor(tensor.contents)
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
def _current_stream(device_type: int, device_id: int, stream: Any) -> int:
    stream[0] = device().stream
    return 0


_table = _Exchange(
    1,
    3,
    tensor_from_object=ctypes.cast(_tensor_from_object, ctypes.c_void_p),
    current_stream=ctypes.cast(_current_stream, ctypes.c_void_p),
)


class QuickArray(Array):
    """Lent by DLPack's exchange table, as by torch: hvdlite learns the stream, and makes it
    follow."""

    __dlpack_c_exchange_api__ = _python.PyCapsule_New(
        ctypes.addressof(_table), b"dlpack_exchange_api", None
    )
    borrowed: Any = None


def from_dlpack(source: Any) -> Array:
    """A result of hvdlite's, on the framework's stream."""
    capsule = source.__dlpack__(stream=device().stream.value)
    pointer = _python.PyCapsule_GetPointer(capsule, b"dltensor")
    managed = ctypes.cast(pointer, ctypes.POINTER(_Managed)).contents
    _python.PyCapsule_SetName(capsule, b"used_dltensor")
    tensor = managed.tensor
    shape = [tensor.shape[i] for i in range(tensor.ndim)]
    assert (tensor.device_type, tensor.device_id) == (CUDA, device().ordinal)
    kind = {code: kind for kind, code in _CODES.items()}[tensor.dtype.code]
    dtype = np.dtype(bool) if kind == "b" else np.dtype(f"{kind}{tensor.dtype.bits // 8}")
    return Array(np.empty(shape, dtype), owner=_Owner(managed), address=tensor.data or 0)


class _Owner:
    def __init__(self, managed: _Managed) -> None:
        self._managed = managed

    def __del__(self) -> None:
        self._managed.deleter(ctypes.pointer(self._managed))
