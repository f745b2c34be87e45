"""Submits operations and waits for them, and keeps what they have borrowed."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from ctypes import byref, c_char, c_int32, c_int64, c_void_p
from typing import Any

import numpy as np

from hvdlite.base.operations import ALLREDUCE
from hvdlite.core.by_ctypes.device_array import DeviceArray
from hvdlite.core.by_ctypes.interface import (
    SLICE,
    Operation,
    Result,
    Sparse,
    as_bytes,
    c,
    check,
    error_of,
    memory_at,
    numbers,
    patiently,
)  # fmt: skip
from hvdlite.core.by_ctypes.tensors import (
    BFLOAT16,
    DTYPE_NAMES,
    FLOAT32,
    Lent,
    current_stream,
    elements,
    exchange_of,
    lend,
)  # fmt: skip

_RESULT_NONE = 0
# See csrc/bindings/operations.cc.
IN_PLACE = 1 << 40
# hvdlite_end's *done for a GPU operation whose work is enqueued
_ON_GPU = 2

_nothing = c_char()  # an empty tensor may have no address, which would mean: allocate
_free = ctypes.CDLL(None).free
_free.argtypes = (c_void_p,)


class NotContiguous(ValueError):
    """Make a contiguous copy of the tensor, and ask again."""


class Call:
    """One operation with the tensors that it borrows. It keeps itself alive from keep() on, until
    release(): a signal may end the caller's Python at any place, and the engine still writes."""

    __slots__ = ("c", "input", "kept", "objects", "__weakref__")

    def __init__(
        self, kind: int, op: int, process_set: int, name: str | None, prescale: float,
        postscale: float, patient: bool = False,
    ) -> None:  # fmt: skip
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be a str or None, not {type(name).__name__}")
        self.c = Operation(
            kind=kind,
            op=op,
            process_set=process_set,
            name=as_bytes(name),
            prescale=prescale,
            postscale=postscale,
            patient=bool(patient),
        )
        self.input: Lent | None = None
        self.objects: list[Any] = []
        self.kept: int | None = None

    def borrow(self, given: Any, output: Any) -> None:
        """`output` may be None (hvdlite allocates the result) or `given` (in place)."""
        in_place = given is not None and output is given
        self.objects += (given, output)
        if given is not None:
            self.input = self._usable(given, written=in_place)
            self.c.input = self.input.tensor
            self.c.stream = self.input.producer
        elif c.operation_result(self.c.kind) != _RESULT_NONE:
            raise TypeError("expected a tensor, got None")
        if output is None:
            return
        self.c.output = self.input.tensor if in_place and self.input else self._output(output)
        if not self.c.output.data:
            self.c.output.data = ctypes.addressof(_nothing)

    def borrow_residual(self, residual: Any) -> None:
        if residual is not None:
            self.objects.append(residual)
            self.c.residual = self._usable(residual, written=True).tensor

    def split(self, splits: Sequence[int]) -> None:
        if splits:
            self.c.splits = numbers(c_int64, splits)
            self.c.split_count = len(splits)

    def _usable(self, given: Any, written: bool) -> Lent:
        """Checks read-only first, because a caller that makes a contiguous copy writes the result
        back."""
        lent = self._lend(given)
        if written:
            _check_writable(lent)
        if not lent.contiguous:
            raise NotContiguous("the tensor must be contiguous")
        return lent

    def _output(self, given: Any) -> Any:
        lent = self._lend(given)
        _check_writable(lent)
        if not lent.contiguous:
            raise ValueError(
                "the output must be contiguous: the result is written into it without a copy"
            )
        return lent.tensor

    def _lend(self, given: Any) -> Lent:
        lent = lend(given)
        self.objects.append(lent.owner)
        return lent

    def keep(self) -> None:
        self.kept = next(_before_handles)
        _kept[self.kept] = self

    def keep_for(self, handle: int) -> None:
        _kept[handle] = self
        _kept.pop(self.kept, None)

    def release(self) -> None:
        _kept.pop(self.kept, None)


def _check_writable(lent: Lent) -> None:
    if not lent.writable:
        raise ValueError(
            "the tensor is read-only, so the result cannot be written into it; pass a copy, or use "
            "the form without _"
        )


# By handle; by a negative number before there is one.
_kept: dict[int | None, Call] = {}
_before_handles = itertools.count(-2, -1)


give_back = _kept.clear
release_all = c.release_all


def start(call: Call) -> int:
    handle = c_int64(-1)
    call.keep()
    code = c.submit(byref(call.c), byref(handle))
    if code:
        call.release()
        raise error_of(code)
    call.keep_for(handle.value)
    return handle.value


def _described(
    kind: int, op: int, process_set: int, name: str | None, input: Any, output: Any, root: int,
    prescale: float, postscale: float, splits: list[int], patient: bool = False,
) -> Call:  # fmt: skip
    call = Call(kind, op, process_set, name, prescale, postscale, patient)
    call.c.root = root
    call.split(splits)
    call.borrow(input, output)
    return call


def submit(*described: Any) -> int:
    return start(_described(*described))


def submit_group(
    kind: int, op: int, process_set: int, name: str | None, inputs: list[Any], outputs: list[Any],
    prescale: float, postscale: float, patient: bool,
) -> list[int]:  # fmt: skip
    calls = []
    for number, each in enumerate(inputs):
        call = Call(kind, op, process_set, None, prescale, postscale, patient)
        call.borrow(each, outputs[number] if outputs else None)
        calls.append(call)
    operations = (Operation * max(len(calls), 1))(*(call.c for call in calls))
    handles = (c_int64 * max(len(calls), 1))()
    for call in calls:
        call.keep()
    code = c.submit_group(operations, len(calls), as_bytes(name), handles)
    if code:
        for call in calls:
            call.release()
        raise error_of(code)
    found = list(handles[: len(calls)])
    for call, handle in zip(calls, found, strict=True):
        call.keep_for(handle)
    return found


def submit_encoded(
    op: int, process_set: int, name: str | None, input: Any, output: Any, prescale: float,
    postscale: float, codec: int, parameter: float, residual: Any, seed: int, step: int,
    patient: bool,
) -> int:  # fmt: skip
    call = Call(ALLREDUCE.kind, op, process_set, name, prescale, postscale, patient)
    call.c.codec, call.c.codec_parameter = codec, parameter
    call.c.codec_seed, call.c.codec_step = seed, step
    call.borrow(input, output)
    call.borrow_residual(residual)
    return start(call)


def submit_sparse(
    op: int, process_set: int, name: str | None, input: Any, output: Any, prescale: float,
    postscale: float, taken: int, residual: Any, new_residual: Any, velocity: Any = None,
    new_velocity: Any = None, momentum: float = 0.0, nesterov: bool = False, masking: bool = False,
    patient: bool = False,
) -> int:  # fmt: skip
    call = Call(ALLREDUCE.kind, op, process_set, name, prescale, postscale, patient)
    lengths: set[int] = set()

    def memory(array: Any, written: bool) -> int | None:
        if array is None:
            return None
        lent = lend(array)
        tensor = lent.tensor
        if (
            tensor.dtype != FLOAT32
            or not lent.contiguous
            or tensor.device_kind
            or (written and not lent.writable)
        ):
            raise TypeError("the memory of a sparse allreduce is contiguous float32 on the CPU")
        lengths.add(elements(tensor))
        if len(lengths) > 1:
            raise ValueError("the arrays differ in length")
        call.objects += (array, lent.owner)
        data: int | None = tensor.data
        return data

    sparse = Sparse(
        taken=taken,
        residual=memory(residual, False),
        new_residual=memory(new_residual, True),
        velocity=memory(velocity, False),
        new_velocity=memory(new_velocity, True),
        count=min(lengths, default=-1),
        momentum=momentum,
        nesterov=nesterov,
        masking=masking,
    )
    call.c.sparse = ctypes.pointer(sparse)
    call.borrow(input, output)
    return start(call)


def poll(handle: int) -> bool:
    done = c_int32()
    check(c.poll(handle, byref(done)))
    return bool(done)


def _follow(handle: int) -> int:
    """Orders the framework's later work behind a done operation on a GPU, or waits for it. Returns
    the operation's status."""
    call = _kept.get(handle)
    lent = call.input if call else None
    if lent and lent.exchange:
        stream = current_stream(lent.exchange, lent.tensor.device_index)
        if stream is not None:
            return int(c.follow(handle, stream))
    finished = c_int32()
    while True:
        code = patiently(c.wait_for_device, handle, SLICE, byref(finished))
        if code or finished:
            return int(code)


def _release(handle: int) -> None:
    c.release(handle)
    _kept.pop(handle, None)


def wait(handle: int) -> tuple[Any, tuple[int, ...], int]:
    done = c_int32()
    check(c.poll(handle, byref(done)))
    while not done:
        check(patiently(c.wait, handle, SLICE, byref(done)))
    result = Result()
    code = c.get_result(handle, byref(result))
    if code:
        error = error_of(code)
        _follow(handle)  # the device may still use the tensors
        _release(handle)
        raise error
    if result.on_gpu and (code := _follow(handle)):
        error = error_of(code)
        _release(handle)
        raise error
    storage = c_void_p()
    check(c.take(handle, byref(result), byref(storage)))
    tensor = result.output
    dtype = tensor.dtype
    shape = tuple(tensor.shape[: tensor.ndim])
    received = tuple(result.received_splits[: result.split_count])
    _kept.pop(handle, None)
    output: Any = None
    if storage and tensor.device_kind:
        output = DeviceArray(storage.value, tensor.data, tensor.device_index, dtype, shape)
    elif tensor.data:
        output = _array(tensor.data, storage.value, dtype, shape)
    return output, received, int(result.number)


def _array(data: int, storage: Any, dtype: int, shape: tuple[int, ...]) -> Any:
    """numpy has no bfloat16: its bits come as int16, and the caller, which sent bfloat16,
    reinterprets them."""
    named = np.dtype("int16" if dtype == BFLOAT16 else DTYPE_NAMES[dtype])
    count = math.prod(shape) * named.itemsize
    if not count:
        _free(storage)
        return np.empty(shape, named)
    return np.ndarray(shape, named, memory_at(data, count, _free, storage))


def _end(handle: int) -> tuple[int, int]:
    """Waits until the operation is done, and releases its handle as hvdlite_end does."""
    done = c_int32()
    code = c.end(handle, 0, byref(done))
    while not code and not done:
        code = patiently(c.end, handle, SLICE, byref(done))
    if not done:
        check(code)  # only the wait has ended; the operation continues
    return code, done.value


def wait_all(handles: list[int]) -> None:
    if type(handles) is not list:
        raise TypeError("expected a list of handles")
    first: Exception | None = None  # in the order of the list
    # Backwards: when the last one is done, the others usually are, too. A signal ends the wait, and
    # what is not done stays in the list.
    while handles:
        handle = handles[-1]
        code, done = _end(handle)
        if done == _ON_GPU:
            code = _follow(handle)
            c.release(handle)
        if code:
            first = error_of(code)
        handles.pop()
        _kept.pop(handle, None)
    if first:
        raise first


def _run(call: Call) -> Any:
    handle = c_int64(-1)
    call.keep()
    code = patiently(c.run, byref(call.c), SLICE, byref(handle))
    if code or handle.value < 0:
        call.release()
        check(code)
        return None
    call.keep_for(handle.value)
    return wait(handle.value)


def run(*described: Any) -> Any:
    return _run(_described(*described))


def _in_place(
    op: int, process_set: int, name: str | None, tensor: Any, prescale: float, postscale: float
) -> Call | None:
    if not isinstance(tensor, np.ndarray) and exchange_of(type(tensor)) is None:
        return None
    call = Call(ALLREDUCE.kind, op, process_set, name, prescale, postscale)
    try:
        call.borrow(tensor, tensor)
    except Exception:
        return None
    return None if call.c.input.device_kind else call


def run_in_place(*described: Any) -> bool:
    call = _in_place(*described)
    if call is not None:
        _run(call)
    return call is not None


def start_in_place(*described: Any) -> int | None:
    call = _in_place(*described)
    return None if call is None else start(call) + IN_PLACE


def run_list_in_place(*described: Any) -> bool:
    return False  # nothing has happened: submit_group() is asked


def start_list_in_place(*described: Any) -> int | None:
    return None


def end_in_place(handle: int) -> Any:
    handle -= IN_PLACE
    code, done = _end(handle)
    call = _kept.pop(handle, None)
    if done < 0 or call is None:
        return None
    if code:
        raise error_of(code)
    return call.objects[0]
