"""Collectives on numpy arrays and everything that speaks DLPack.

Each comes in up to four forms: plain (returns a new array), `_async` (returns a handle for synchronize() or poll()),
in place (trailing underscore), and both. Results are numpy arrays, or of the input's own kind where that has a
`from_dlpack`. All ranks of the process set must ask for the same operations under the same names; operations without a
name are matched in the order of the calls.
"""

from __future__ import annotations

import operator
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hvdlite import _core
from hvdlite.exceptions import NotInitializedError
from hvdlite.process_sets import ProcessSet, global_process_set

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "synchronize",
]

# The reductions, as Horovod numbers them (base/ops.h).
Average, Sum, Adasum, Min, Max, Product = range(6)

# Kinds of operations (base/ops.def).
_ALLREDUCE, _ALLGATHER, _BROADCAST, _ALLTOALL, _REDUCESCATTER, _BARRIER, _JOIN = range(7)

Tensor = Any  # a numpy array, or an object with __dlpack__

_NO_SPLITS: list[int] = []


# ---- Handles --------------------------------------------------------------------------------------------------------
#
# A handle is a number. Until it is done the memory it reads and writes must stay: the table below holds it, whatever
# the caller does (an exception in synchronize() does not take it away).


class _Pending:
    """What a handle needs to become a result: the native handles, the memory, and how to hand it back."""

    __slots__ = ("finish", "keep", "natives")

    def __init__(self, natives: list[int], keep: Any, finish: Callable[[list[Any]], Any]) -> None:
        self.natives = natives
        self.keep = keep
        self.finish = finish


_pending: dict[int, _Pending] = {}
_pending_lock = threading.Lock()
_next_handle = 0


def _new_handle(pending: _Pending) -> int:
    global _next_handle
    with _pending_lock:
        handle = _next_handle
        _next_handle += 1
        _pending[handle] = pending
    return handle


def poll(handle: int) -> bool:
    """True once synchronize(handle) would not block. ValueError for a handle that was synchronized already."""
    pending = _pending.get(handle)
    if pending is None:
        raise ValueError(f"Handle {handle} was not created or has been cleared.")
    return all(_core.poll(native) for native in pending.natives)


def synchronize(handle: int) -> Any:
    """Waits for an asynchronous operation and returns its result. None for a handle that was synchronized already."""
    pending = _pending.get(handle)
    if pending is None:
        return None
    return _complete(pending, lambda: _pending.pop(handle, None))


def _complete(pending: _Pending, forget: Callable[[], Any]) -> Any:
    results = []
    error: Exception | None = None
    while pending.natives:
        native = pending.natives[0]
        try:
            results.append(_core.wait(native))
        except Exception as failed:  # KeyboardInterrupt passes: the operation is still under way, and so is the handle
            error = error or failed
        pending.natives.pop(0)
    forget()
    if error is not None:
        raise error
    return pending.finish(results)


# ---- Tensors --------------------------------------------------------------------------------------------------------


def _contiguous(tensor: Tensor) -> Tensor:
    """The tensor itself, or a contiguous copy."""
    if isinstance(tensor, np.ndarray):
        return tensor if tensor.flags.c_contiguous else tensor.copy(order="C")
    if isinstance(tensor, (int, float, bool, np.generic, list, tuple)):
        return np.array(tensor)
    contiguous = getattr(tensor, "contiguous", None)  # torch
    return contiguous() if callable(contiguous) else tensor


def _empty_like(tensor: Tensor) -> np.ndarray | None:
    # None: the library allocates, which spares a detour through DLPack.
    return np.empty(tensor.shape, tensor.dtype) if isinstance(tensor, np.ndarray) else None


def _own_kind(tensor: Tensor, result: Any) -> Any:
    """`result` as the kind of array that `tensor` is."""
    if isinstance(tensor, np.ndarray) or result is None:
        return result
    package = sys.modules.get(type(tensor).__module__.partition(".")[0])
    if package is not None and package.__name__ == "jaxlib":
        package = sys.modules.get("jax.numpy")
    from_dlpack = getattr(package, "from_dlpack", None)
    return from_dlpack(result) if callable(from_dlpack) else result


def _reduction(average: bool | None, op: int | None) -> int:
    if average is not None:
        if op is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of them.")
        warnings.warn("average= is deprecated, use op=", DeprecationWarning, stacklevel=3)
        return Average if average else Sum
    if op is None:
        return Average
    number = op if type(op) is int else operator.index(op) if hasattr(op, "__index__") else -1  # numpy's integers
    if not 0 <= number <= 5:
        raise ValueError(f"op={op!r} is not one of hvd.Average, Sum, Adasum, Min, Max, Product")
    return number


def _set_id(process_set: ProcessSet) -> int:
    if not isinstance(process_set, ProcessSet):
        raise TypeError(f"process_set must be a ProcessSet, not {type(process_set).__name__}")
    set_id = process_set.process_set_id
    if set_id is None:
        if not _core.is_initialized():
            raise NotInitializedError()
        raise ValueError(
            f"{process_set} is not registered: pass it to hvd.init(process_sets=[...]) or hvd.add_process_set() first"
        )
    return set_id


def _submit(
    kind: int,
    tensor: Tensor,
    output: Tensor | None,
    name: str | None,
    process_set: ProcessSet,
    *,
    op: int = Sum,
    root: int = 0,
    prescale: float = 1.0,
    postscale: float = 1.0,
    splits: list[int] = _NO_SPLITS,
    will_wait: bool = False,
) -> int:
    return _core.submit(
        kind, op, _set_id(process_set), name, tensor, output, root, prescale, postscale, splits, will_wait
    )


# ---- Allreduce ------------------------------------------------------------------------------------------------------


def _start_allreduce(
    tensor: Tensor, name: str | None, op: int, pre: float, post: float, process_set: ProcessSet, will_wait: bool
) -> _Pending:
    source = _contiguous(tensor)
    output = _empty_like(source)
    native = _submit(
        _ALLREDUCE, source, output, name, process_set, op=op, prescale=pre, postscale=post, will_wait=will_wait
    )
    if output is not None:
        return _Pending([native], (source, output), lambda results: output)
    return _Pending([native], source, lambda results: _own_kind(source, results[0][0]))


def _start_in_place(tensor: Tensor, submit: Callable[[Tensor], int]) -> _Pending:
    """Runs an in-place operation on the tensor, or on a contiguous copy that is copied back at the end."""
    if isinstance(tensor, (int, float, bool, np.generic, list, tuple)):
        raise TypeError(f"an in-place operation needs a tensor to write into, not {type(tensor).__name__}")
    if isinstance(tensor, np.ndarray) and not tensor.flags.writeable:
        raise ValueError(
            "the tensor is read-only, so the result cannot be written into it; pass a copy, or use the form without _"
        )
    work = _contiguous(tensor)
    native = submit(work)
    if work is tensor or (work is not tensor and getattr(work, "data_ptr", None) and work.data_ptr() == tensor.data_ptr()):
        return _Pending([native], work, lambda results: tensor)

    def copy_back(results: list[Any]) -> Tensor:
        tensor[...] = work
        return tensor

    return _Pending([native], (work, tensor), copy_back)


def _start_allreduce_(
    tensor: Tensor, name: str | None, op: int, pre: float, post: float, process_set: ProcessSet, will_wait: bool
) -> _Pending:
    return _start_in_place(
        tensor,
        lambda work: _submit(
            _ALLREDUCE, work, work, name, process_set, op=op, prescale=pre, postscale=post, will_wait=will_wait
        ),
    )


def _now(pending: _Pending) -> Any:
    """Waits for an operation that has no handle. Should Ctrl-C end the wait, it gets one, so that its memory stays."""
    try:
        return _complete(pending, lambda: None)
    except BaseException:
        if pending.natives:
            _new_handle(pending)
        raise


def allreduce_async(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts allreduce() and returns a handle."""
    reduction = _reduction(average, op)
    return _new_handle(
        _start_allreduce(tensor, name, reduction, prescale_factor, postscale_factor, process_set, False)
    )


def allreduce(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combines the tensors of all ranks element by element and returns the result, the same bits on every rank.

    `op` is hvd.Average (the default), Sum, Min, Max, Product or Adasum; the factors are applied to each input and to the
    result. float16 and bfloat16 are added in float32.
    """
    reduction = _reduction(average, op)
    return _now(_start_allreduce(tensor, name, reduction, prescale_factor, postscale_factor, process_set, True))


def allreduce_async_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts allreduce_() and returns a handle."""
    reduction = _reduction(average, op)
    return _new_handle(
        _start_allreduce_(tensor, name, reduction, prescale_factor, postscale_factor, process_set, False)
    )


def allreduce_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """allreduce() in place. Returns the tensor."""
    reduction = _reduction(average, op)
    return _now(_start_allreduce_(tensor, name, reduction, prescale_factor, postscale_factor, process_set, True))


# ---- Groups: ready together, travel together, fail together ---------------------------------------------------------


def _start_group(
    kind: int,
    tensors: Sequence[Tensor],
    in_place: bool,
    name: str | None,
    op: int,
    pre: float,
    post: float,
    process_set: ProcessSet,
) -> _Pending:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"expected a list of tensors, got {type(tensors).__name__}")
    sources = [_contiguous(t) for t in tensors]
    outputs: list[Any] = []
    if in_place:
        if any(isinstance(t, np.ndarray) and not t.flags.writeable for t in tensors):
            raise ValueError("a tensor of the group is read-only, so the result cannot be written into it; pass a copy")
        outputs = sources
    elif kind == _ALLREDUCE:
        outputs = [_empty_like(s) for s in sources]
    natives = _core.submit_group(kind, op, _set_id(process_set), name, sources, outputs, pre, post)

    def finish(results: list[Any]) -> list[Any]:
        if in_place:
            for tensor, work in zip(tensors, sources, strict=True):
                if work is not tensor:
                    tensor[...] = work
            return list(tensors)
        given = outputs or [None] * len(sources)
        return [
            out if out is not None else _own_kind(source, result[0])
            for source, out, result in zip(sources, given, results, strict=True)
        ]

    return _Pending(list(natives), (tensors, sources, outputs), finish)


def grouped_allreduce_async(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts grouped_allreduce() and returns a handle."""
    reduction = _reduction(average, op)
    return _new_handle(
        _start_group(_ALLREDUCE, tensors, False, name, reduction, prescale_factor, postscale_factor, process_set)
    )


def grouped_allreduce(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """allreduce() of several tensors that travel together. Returns a list."""
    reduction = _reduction(average, op)
    return _now(
        _start_group(_ALLREDUCE, tensors, False, name, reduction, prescale_factor, postscale_factor, process_set)
    )


def grouped_allreduce_async_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts grouped_allreduce_() and returns a handle."""
    reduction = _reduction(average, op)
    return _new_handle(
        _start_group(_ALLREDUCE, tensors, True, name, reduction, prescale_factor, postscale_factor, process_set)
    )


def grouped_allreduce_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """grouped_allreduce() in place. Returns the tensors."""
    reduction = _reduction(average, op)
    return _now(
        _start_group(_ALLREDUCE, tensors, True, name, reduction, prescale_factor, postscale_factor, process_set)
    )


def grouped_allgather_async(
    tensors: Sequence[Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts grouped_allgather() and returns a handle."""
    return _new_handle(_start_group(_ALLGATHER, tensors, False, name, Sum, 1.0, 1.0, process_set))


def grouped_allgather(
    tensors: Sequence[Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """allgather() of several tensors that travel together. Returns a list."""
    return _now(_start_group(_ALLGATHER, tensors, False, name, Sum, 1.0, 1.0, process_set))


def grouped_reducescatter_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts grouped_reducescatter() and returns a handle."""
    return _new_handle(
        _start_group(_REDUCESCATTER, tensors, False, name, op, prescale_factor, postscale_factor, process_set)
    )


def grouped_reducescatter(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    """reducescatter() of several tensors that travel together. Returns a list."""
    return _now(
        _start_group(_REDUCESCATTER, tensors, False, name, op, prescale_factor, postscale_factor, process_set)
    )


# ---- The others -----------------------------------------------------------------------------------------------------


def _start_allgather(tensor: Tensor, name: str | None, process_set: ProcessSet, will_wait: bool) -> _Pending:
    source = _contiguous(tensor)
    native = _submit(_ALLGATHER, source, None, name, process_set, will_wait=will_wait)
    return _Pending([native], source, lambda results: _own_kind(source, results[0][0]))


def allgather_async(tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Starts allgather() and returns a handle."""
    return _new_handle(_start_allgather(tensor, name, process_set, False))


def allgather(tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """Concatenates the tensors of all ranks along their first dimension, which may differ from rank to rank."""
    return _now(_start_allgather(tensor, name, process_set, True))


def _start_broadcast(
    tensor: Tensor, root_rank: int, name: str | None, process_set: ProcessSet, will_wait: bool
) -> _Pending:
    source = _contiguous(tensor)
    output = _empty_like(source)
    native = _submit(_BROADCAST, source, output, name, process_set, root=root_rank, will_wait=will_wait)
    if output is not None:
        return _Pending([native], (source, output), lambda results: output)
    return _Pending([native], source, lambda results: _own_kind(source, results[0][0]))


def _start_broadcast_(
    tensor: Tensor, root_rank: int, name: str | None, process_set: ProcessSet, will_wait: bool
) -> _Pending:
    return _start_in_place(
        tensor,
        lambda work: _submit(_BROADCAST, work, work, name, process_set, root=root_rank, will_wait=will_wait),
    )


def broadcast_async(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts broadcast() and returns a handle."""
    return _new_handle(_start_broadcast(tensor, root_rank, name, process_set, False))


def broadcast(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Returns the tensor of `root_rank` (a global rank, also in a process set). Shapes must be equal on all ranks."""
    return _now(_start_broadcast(tensor, root_rank, name, process_set, True))


def broadcast_async_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts broadcast_() and returns a handle."""
    return _new_handle(_start_broadcast_(tensor, root_rank, name, process_set, False))


def broadcast_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """broadcast() in place. Returns the tensor."""
    return _now(_start_broadcast_(tensor, root_rank, name, process_set, True))


def _start_alltoall(
    tensor: Tensor, splits: Any, name: str | None, process_set: ProcessSet, will_wait: bool, pair: bool
) -> _Pending:
    source = _contiguous(tensor)
    parts: list[int] = _NO_SPLITS
    if splits is not None:
        array = np.asarray(splits)
        if array.ndim != 1 or not (array.size == 0 or np.issubdtype(array.dtype, np.integer)):
            raise ValueError("splits must be a one-dimensional sequence of integers")
        if array.size == 0:
            raise ValueError("splits must have one entry for each member of the process set")
        parts = [int(s) for s in array]
    native = _submit(_ALLTOALL, source, None, name, process_set, splits=parts, will_wait=will_wait)

    def finish(results: list[Any]) -> Any:
        output = _own_kind(source, results[0][0])
        return (output, np.array(results[0][1], np.int32)) if pair else output

    return _Pending([native], source, finish)


def alltoall_async(
    tensor: Tensor, splits: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts alltoall() and returns a handle; synchronize() then always returns (output, received_splits)."""
    return _new_handle(_start_alltoall(tensor, splits, name, process_set, False, True))


def alltoall(
    tensor: Tensor, splits: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Sends the i-th part of the first dimension to rank i, and returns the parts received, in the order of ranks.

    `splits` says how many rows go to each rank; without it they are equal. With splits the result is
    (output, received_splits).
    """
    return _now(_start_alltoall(tensor, splits, name, process_set, True, splits is not None))


def _start_reducescatter(
    tensor: Tensor, name: str | None, op: int, process_set: ProcessSet, pre: float, post: float, will_wait: bool
) -> _Pending:
    source = _contiguous(tensor)
    native = _submit(
        _REDUCESCATTER, source, None, name, process_set, op=op, prescale=pre, postscale=post, will_wait=will_wait
    )
    return _Pending([native], source, lambda results: _own_kind(source, results[0][0]))


def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts reducescatter() and returns a handle."""
    return _new_handle(
        _start_reducescatter(tensor, name, op, process_set, prescale_factor, postscale_factor, False)
    )


def reducescatter(
    tensor: Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Reduces the tensors of all ranks and returns this rank's part of the rows; earlier ranks get the odd ones."""
    return _now(_start_reducescatter(tensor, name, op, process_set, prescale_factor, postscale_factor, True))


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns once all ranks of the set have called it."""
    _core.wait(_submit(_BARRIER, None, None, None, process_set, will_wait=True))


def join(device: int = -1) -> int:
    """Says that this rank has no more data, and waits until all ranks have said so. Returns the last one to.

    Until then this rank takes part in the others' allreduce, allgather, broadcast and barrier with zeros, or nothing.
    `device` is accepted for Horovod's sake.
    """
    del device
    native = _core.submit(_JOIN, Sum, 0, "join", None, None, 0, 1.0, 1.0, _NO_SPLITS, True)
    return int(_core.wait(native)[2])
