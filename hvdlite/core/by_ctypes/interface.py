"""The functions and structures of csrc/api/hvdlite.h for ctypes, and its errors as exceptions."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from hvdlite import exceptions

# Beside the module for which this is imported, which a clone may have taken from elsewhere.
_library = ctypes.CDLL(
    str(Path(str(sys.modules["hvdlite._core"].__file__)).parent / "libhvdlite.so")
)

# ---- The structures of hvdlite.h -----------------------------------------------------------------


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p), ("dtype", c_int32), ("ndim", c_int32), ("shape", POINTER(c_int64)),
        ("device_kind", c_int32), ("device_index", c_int32),
    ]  # fmt: skip


class Sparse(ctypes.Structure):
    _fields_ = [
        ("taken", c_int64), ("count", c_int64), ("residual", c_void_p), ("new_residual", c_void_p),
        ("velocity", c_void_p), ("new_velocity", c_void_p), ("momentum", c_float),
        ("nesterov", c_int32), ("masking", c_int32),
    ]  # fmt: skip


class Operation(ctypes.Structure):
    _fields_ = [
        ("kind", c_int32), ("op", c_int32), ("process_set", c_int32), ("name", c_char_p),
        ("root", c_int64), ("prescale", c_double), ("postscale", c_double),
        ("splits", POINTER(c_int64)), ("split_count", c_int32), ("input", Tensor),
        ("output", Tensor), ("stream", c_void_p), ("patient", c_int32), ("codec", c_int32),
        ("codec_parameter", c_double), ("residual", Tensor), ("codec_seed", c_uint64),
        ("codec_step", c_uint64), ("sparse", POINTER(Sparse)),
    ]  # fmt: skip


class Result(ctypes.Structure):
    _fields_ = [
        ("output", Tensor), ("received_splits", POINTER(c_int64)), ("split_count", c_int32),
        ("on_gpu", c_int32), ("number", c_int64),
    ]  # fmt: skip


class Mpi(ctypes.Structure):
    _fields_ = [
        ("absent", c_char_p), ("module", c_char_p), ("names", POINTER(c_char_p)),
        ("handles", POINTER(c_int64)), ("handle_count", c_int32), ("in_place", c_int64),
        ("communicator", c_int64), ("library", c_char_p),
    ]  # fmt: skip


class Generation(ctypes.Structure):
    _fields_ = [
        ("number", c_int32), ("nonce", c_char_p), ("slot", c_int32), ("seconds", c_int32)
    ]  # fmt: skip


class InitOptions(ctypes.Structure):
    _fields_ = [
        ("rank", c_int32), ("size", c_int32), ("store", c_char_p), ("store_prefix", c_char_p),
        ("secret", c_char_p), ("knobs", POINTER(c_char_p)), ("knob_count", c_int32),
        ("set_sizes", POINTER(c_int32)), ("set_ranks", POINTER(c_int32)), ("set_count", c_int32),
        ("mpi", POINTER(Mpi)), ("release", c_char_p), ("generation", POINTER(Generation)),
    ]  # fmt: skip


class Place(ctypes.Structure):
    _fields_ = [
        (name, c_int32)
        for name in "rank size local_rank local_size cross_rank cross_size is_homogeneous".split()
    ]


class PoolAllocator(ctypes.Structure):
    _fields_ = [
        ("module", c_char_p), ("function", c_char_p), ("gate", c_char_p), ("outside", c_int32)
    ]  # fmt: skip


class PoolCounters(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("hits", "misses", "live", "bytes")]


# What does not return int32 (an hvdlite_code is one), and arguments that ctypes cannot tell.
_RETURNS = {
    c_char_p: "operation_name dtype_name codec_name codec_parameter last_error simd gpu_kernels "
    "mpi_handle_name",
    c_int64: "dtype_size encoded_bytes explain describe pool_offset",
    c_uint64: "digest",
    c_void_p: "pool_allocate",
    None: "abort end_generation release release_all free_memory pool_expect pool_arm pool_free "
    "pool_take_all "
    "pool_stats wish_report answer",
}
_RETURN_OF = {name: kind for kind, names in _RETURNS.items() for name in names.split()}
_TAKES: dict[str, Sequence[Any]] = {
    "encoded_bytes": (c_int32, c_double, c_int64),
    "shutdown": (c_double,),
    "explain": (c_int32, c_char_p, c_int64),
    "run": (POINTER(Operation), c_double, POINTER(c_int64)),
    "submit": (POINTER(Operation), POINTER(c_int64)),
    "wait": (c_int64, c_double, POINTER(c_int32)),
    "end": (c_int64, c_double, POINTER(c_int32)),
    "poll": (c_int64, POINTER(c_int32)),
    "get_result": (c_int64, POINTER(Result)),
    "follow": (c_int64, c_void_p),
    "wait_for_device": (c_int64, c_double, POINTER(c_int32)),
    "follow_memory": (c_void_p, c_void_p),
    "free_memory": (c_void_p,),
    "release": (c_int64,),
    "take": (c_int64, POINTER(Result), POINTER(c_void_p)),
    "pool_expect": (c_int64, c_int64),
    "pool_allocate": (c_int64,),
    "pool_free": (c_void_p,),
    "pool_offset": (c_void_p,),
    "digest": (c_void_p, c_int64),
    "describe": (c_char_p, c_char_p, c_int64),
    "wait_question": (c_double,),
}


class _C:
    """The functions of hvdlite.h, without their prefix, looked up once. Each call releases the
    interpreter lock."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(_library, f"hvdlite_{name}")
        function.restype = _RETURN_OF.get(name, c_int32)
        if name in _TAKES:
            function.argtypes = _TAKES[name]
        setattr(self, name, function)
        return function


c = _C()

# ---- Errors --------------------------------------------------------------------------------------

_PEER_LOST, _TIMEOUT = 4, 6
# By hvdlite_code
_CLASSES: dict[int, type[Exception]] = {
    1: ValueError,
    2: exceptions.NotInitializedError,
    3: exceptions.MismatchError,
    _PEER_LOST: exceptions.PeerLostError,
    5: exceptions.ShutDownError,
    _TIMEOUT: TimeoutError,
    8: NotImplementedError,
    10: exceptions.DuplicateNameError,
}


def text_of(text: bytes | None) -> str:
    return (text or b"").decode(errors="replace")


def loss_of_last_error() -> exceptions.Loss:
    ranks = (c_int32 * 64)()
    count = c.last_error_ranks(ranks, 64)
    return exceptions.Loss(c.last_error_cause(), tuple(ranks[:count]))


def error_of(code: int) -> Exception:
    error = _CLASSES.get(code, exceptions.HorovodInternalError)(text_of(c.last_error()))
    if code in (_PEER_LOST, _TIMEOUT):
        error.rank = c.last_error_peer()  # type: ignore[attr-defined]
        error.loss = loss_of_last_error()  # type: ignore[attr-defined]
    return error


def check(code: int) -> None:
    if code:
        raise error_of(code)


# ---- Calls and their arguments -------------------------------------------------------------------

#: How long a call waits, in seconds, before Python looks for signals.
SLICE = 0.1
# An entry for each thread in a call that may take long
_inside: list[None] = []


def patiently(call: Callable[..., Any], *arguments: Any) -> Any:
    """For a call that may take long."""
    _inside.append(None)
    try:
        return call(*arguments)
    finally:
        _inside.pop()


def threads_inside() -> int:
    return len(_inside)


def memory_at(address: int, count: int, free: Callable[[int], Any], owned: int) -> Any:
    """So many bytes as a buffer. With the last reference to it, free(owned) is called."""
    memory = (ctypes.c_uint8 * count).from_address(address)
    weakref.finalize(memory, free, owned).atexit = False
    return memory


def as_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def numbers(kind: Any, values: Sequence[int]) -> Any:
    return (kind * max(len(values), 1))(*values)


def texts(values: Sequence[str]) -> Any:
    return (c_char_p * max(len(values), 1))(*(value.encode() for value in values))


def names(name_of: Callable[[int], bytes | None], first: int = 0) -> Iterator[str]:
    """Until there is none."""
    number = first
    while name := name_of(number):
        yield name.decode()
        number += 1
