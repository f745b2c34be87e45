"""Calls of XLA's FFI as XLA makes them for platform CUDA, with arrays of gpu_arrays and its stream,
of csrc/ingraph's handler."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gpu_arrays
import numpy as np

import hvdlite

# xla::PrimitiveType's numbers.
_DTYPES = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8,
    "uint64": 9, "float16": 10, "float32": 11, "float64": 12,
}  # fmt: skip
_ARRAY, _SCALAR, _STRING = 1, 3, 4
_BUFFER = 1
_METADATA = 1

_Head = [("struct_size", ctypes.c_size_t), ("extensions", ctypes.c_void_p)]


class _Span(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class _Scalar(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("value", ctypes.c_void_p)]


class _Array(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]


class _Buffer(ctypes.Structure):
    _fields_ = [
        *_Head, ("dtype", ctypes.c_int32), ("data", ctypes.c_void_p), ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    ]  # fmt: skip


class _Buffers(ctypes.Structure):
    _fields_ = [
        *_Head, ("count", ctypes.c_int64), ("types", ctypes.POINTER(ctypes.c_int32)),
        ("elements", ctypes.POINTER(ctypes.c_void_p)),
    ]  # fmt: skip


class _Attributes(ctypes.Structure):
    _fields_ = [
        *_Head, ("count", ctypes.c_int64), ("types", ctypes.POINTER(ctypes.c_int32)),
        ("names", ctypes.POINTER(ctypes.c_void_p)), ("values", ctypes.POINTER(ctypes.c_void_p)),
    ]  # fmt: skip


class _GetStream(ctypes.Structure):
    _fields_ = [*_Head, ("context", ctypes.c_void_p), ("stream", ctypes.c_void_p)]


class _CreateError(ctypes.Structure):
    _fields_ = [*_Head, ("message", ctypes.c_char_p), ("code", ctypes.c_int32)]


_Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class _Version(ctypes.Structure):
    _fields_ = [*_Head, ("major", ctypes.c_int32), ("minor", ctypes.c_int32)]


class _Api(ctypes.Structure):
    _fields_ = [
        *_Head, ("version", _Version), ("internal", ctypes.c_void_p), ("create_error", _Function),
        ("error_message", ctypes.c_void_p), ("destroy_error", ctypes.c_void_p),
        ("register", ctypes.c_void_p), ("get_stream", _Function),
    ]  # fmt: skip


class _Frame(ctypes.Structure):
    _fields_ = [
        *_Head, ("api", ctypes.POINTER(_Api)), ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int32), ("arguments", _Buffers), ("results", _Buffers),
        ("attributes", _Attributes),
    ]  # fmt: skip


class _Metadata(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("version", _Version),
        ("traits", ctypes.c_uint32),
    ]


class _MetadataExtension(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("type", ctypes.c_int32), ("next", ctypes.c_void_p),
        ("metadata", ctypes.POINTER(_Metadata)),
    ]  # fmt: skip


_library = ctypes.CDLL(str(Path(hvdlite.__file__).parent / "libhvdlite_xla.so"))
_handler = _library.hvdlite_xla_collective_on_cuda
_handler.restype = ctypes.c_void_p

_CONTEXT, _NO_STREAM, _ERROR = 0xC0, 0xE0, 0xE1  # what XLA would point with
_errors: list[str] = []
stream_fails = False


@_Function
def _create_error(arguments: int) -> int:
    asked = _CreateError.from_address(arguments)
    _errors.append(f"{asked.code}: {asked.message.decode()}")
    return _ERROR


@_Function
def _get_stream(arguments: int) -> int | None:
    asked = _GetStream.from_address(arguments)
    assert asked.context == _CONTEXT
    asked.stream = gpu_arrays.device().stream
    return _NO_STREAM if stream_fails else None


_api = _Api(create_error=_create_error, get_stream=_get_stream)


def metadata() -> tuple[int, int, int]:
    """What XLA asks first: major version, minor version, traits."""
    told = _Metadata(traits=99)
    extension = _MetadataExtension(type=_METADATA, metadata=ctypes.pointer(told))
    frame = _Frame(extensions=ctypes.addressof(extension))
    assert _handler(ctypes.byref(frame)) is None
    return told.version.major, told.version.minor, told.traits


def _buffers(arrays: Sequence[gpu_arrays.Array], kept: list[Any]) -> _Buffers:
    elements = (ctypes.c_void_p * len(arrays))()
    for i, array in enumerate(arrays):
        dims = (ctypes.c_int64 * max(len(array.shape), 1))(*array.shape)
        address = array.address if array.host.size else None  # as XLA has it for empty ones
        buffer = _Buffer(0, None, _DTYPES[array.dtype.name], address, len(array.shape), dims)
        kept += [buffer, dims]
        elements[i] = ctypes.addressof(buffer)
    types = (ctypes.c_int32 * len(arrays))(*[_BUFFER] * len(arrays))
    kept += [elements, types]
    return _Buffers(0, None, len(arrays), types, elements)


def _attributes(given: dict[str, Any], kept: list[Any]) -> _Attributes:
    types, names, values = [], [], []
    for name, value in given.items():
        span = _Span(name.encode(), len(name))
        if isinstance(value, str):
            held: Any = _Span(value.encode(), len(value.encode()))
            types.append(_STRING)
        elif value.ndim:
            held = _Array(_DTYPES[value.dtype.name], value.size, value.ctypes.data)
            types.append(_ARRAY)
        else:
            kept.append(memory := np.array(value))
            held = _Scalar(_DTYPES[value.dtype.name], memory.ctypes.data)
            types.append(_SCALAR)
        kept += [span, held, value]
        names.append(ctypes.addressof(span))
        values.append(ctypes.addressof(held))
    count = len(given)
    arrays = (
        (ctypes.c_int32 * count)(*types),
        (ctypes.c_void_p * count)(*names),
        (ctypes.c_void_p * count)(*values),
    )
    kept.append(arrays)
    return _Attributes(0, None, count, *arrays)


def _fresh(shape: tuple[int, ...], dtype: np.dtype[Any]) -> gpu_arrays.Array:
    """Memory as the fake hands it out, full of rubbish."""
    host = np.empty(shape, dtype)
    return gpu_arrays.Array(host, address=gpu_arrays.device().allocate(host.nbytes))


def call(
    arrays: Sequence[gpu_arrays.Array],
    shapes: Sequence[tuple[int, ...]] | None,
    attributes: dict[str, Any],
) -> tuple[list[gpu_arrays.Array], str | None]:
    """One call: the results, and the error that XLA would raise."""
    kept: list[Any] = []
    token = _fresh((), np.dtype(np.float32))
    shapes = [a.shape for a in arrays] if shapes is None else shapes
    results = [_fresh(shape, a.dtype) for shape, a in zip(shapes, arrays, strict=True)]
    frame = _Frame(
        api=ctypes.pointer(_api),
        context=_CONTEXT,
        stage=3,
        arguments=_buffers([*arrays, token], kept),
        results=_buffers([*results, token], kept),
        attributes=_attributes(attributes, kept),
    )
    answer = _handler(ctypes.byref(frame))
    if answer is None:
        return results, None
    return results, "no stream" if answer == _NO_STREAM else _errors.pop()
