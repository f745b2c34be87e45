"""Collectives on numpy arrays and everything that speaks DLPack.

Each comes in up to four forms: plain (returns a new array), `_async` (returns a handle for synchronize() or poll()), in
place (trailing underscore), and both. Results are numpy arrays, or of the input's own kind where that has a
`from_dlpack`. All ranks of the process set must ask for the same operations under the same names; operations without a
name are matched in the order of the calls.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from hvdlite import _core
from hvdlite.arrays import Array, Tensor, contiguous, empty_like, own_kind
from hvdlite.handles import Pending, new_handle
from hvdlite.ops import Average, Kind, Sum, reduction_of
from hvdlite.process_sets import ProcessSet, global_process_set, set_id_of

__all__ = [
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
    "join",
    "reducescatter",
    "reducescatter_async",
]

_NO_SPLITS: list[int] = []
# Kinds whose result has the shape of the input, so that it can be allocated here.
_SAME_SHAPE = (Kind.ALLREDUCE, Kind.BROADCAST)
_NOT_TENSORS = (int, float, np.generic, list, tuple)


# ---- One operation, run `now` or started, into a new result or in place. These run once per tensor: plain and positional. -


def _into_new(
    now: bool,
    kind: int,
    tensor: Tensor,
    name: str | None,
    process_set: ProcessSet,
    op: int = Sum,
    root: int = 0,
    pre: float = 1.0,
    post: float = 1.0,
) -> Any:
    """Returns the result, or a Pending."""
    source = contiguous(tensor)
    output = empty_like(source) if kind in _SAME_SHAPE else None
    call = _core.run if now else _core.submit
    answer: Any = call(kind, op, set_id_of(process_set), name, source, output, root, pre, post, _NO_SPLITS)
    if now:
        return output if output is not None else own_kind(source, answer and answer[0])
    return Pending([answer], partial(_result, source, output))


def _result(source: Tensor, output: Tensor | None, results: list[Any]) -> Any:
    return output if output is not None else own_kind(source, results[0][0])


def _in_place(
    now: bool,
    kind: int,
    tensor: Tensor,
    name: str | None,
    process_set: ProcessSet,
    op: int = Sum,
    root: int = 0,
    pre: float = 1.0,
    post: float = 1.0,
) -> Any:
    """On the tensor, or on a contiguous copy that is copied back at the end. Returns the tensor, or a Pending."""
    if isinstance(tensor, _NOT_TENSORS):
        raise TypeError(f"an in-place operation needs a tensor to write into, not {type(tensor).__name__}")
    call = _core.run if now else _core.submit
    number = set_id_of(process_set)
    try:
        answer = call(kind, op, number, name, tensor, tensor, root, pre, post, _NO_SPLITS)
        work = tensor
    except _core.NotContiguous:
        work = contiguous(tensor)
        answer = call(kind, op, number, name, work, work, root, pre, post, _NO_SPLITS)
    if not now:
        return Pending([answer], partial(_copied_back, tensor, work))
    return tensor if work is tensor else _copied_back(tensor, work)


def _copied_back(tensor: Tensor, work: Tensor, results: list[Any] | None = None) -> Tensor:
    if work is not tensor:
        tensor[...] = work
    return tensor


# ---- Allreduce ------------------------------------------------------------------------------------------------------


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
    reduction = reduction_of(average, op)
    return new_handle(
        _into_new(False, Kind.ALLREDUCE, tensor, name, process_set, reduction, 0, prescale_factor, postscale_factor)
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
    reduction = reduction_of(average, op)
    return _into_new(True, Kind.ALLREDUCE, tensor, name, process_set, reduction, 0, prescale_factor, postscale_factor)


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
    reduction = reduction_of(average, op)
    return new_handle(
        _in_place(False, Kind.ALLREDUCE, tensor, name, process_set, reduction, 0, prescale_factor, postscale_factor)
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
    reduction = reduction_of(average, op)
    return _in_place(True, Kind.ALLREDUCE, tensor, name, process_set, reduction, 0, prescale_factor, postscale_factor)


# ---- The others -----------------------------------------------------------------------------------------------------


def allgather_async(tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Starts allgather() and returns a handle."""
    return new_handle(_into_new(False, Kind.ALLGATHER, tensor, name, process_set))


def allgather(tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """Concatenates the tensors of all ranks along their first dimension, which may differ from rank to rank."""
    return _into_new(True, Kind.ALLGATHER, tensor, name, process_set)


def broadcast_async(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts broadcast() and returns a handle."""
    return new_handle(_into_new(False, Kind.BROADCAST, tensor, name, process_set, root=root_rank))


def broadcast(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Returns the tensor of `root_rank` (a global rank, also in a process set). Shapes must be equal on all ranks."""
    return _into_new(True, Kind.BROADCAST, tensor, name, process_set, root=root_rank)


def broadcast_async_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts broadcast_() and returns a handle."""
    return new_handle(_in_place(False, Kind.BROADCAST, tensor, name, process_set, root=root_rank))


def broadcast_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """broadcast() in place. Returns the tensor."""
    return _in_place(True, Kind.BROADCAST, tensor, name, process_set, root=root_rank)


def _splits(splits: Any) -> list[int]:
    if splits is None:
        return _NO_SPLITS
    array = np.asarray(splits)
    if array.ndim != 1 or not (array.size == 0 or np.issubdtype(array.dtype, np.integer)):
        raise ValueError("splits must be a one-dimensional sequence of integers")
    if array.size == 0:
        raise ValueError("splits must have one entry for each member of the process set")
    return [int(s) for s in array]


def alltoall_async(
    tensor: Tensor, splits: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts alltoall() and returns a handle; synchronize() then always returns (output, received_splits)."""
    source = contiguous(tensor)
    set_id = set_id_of(process_set)
    native = _core.submit(Kind.ALLTOALL, Sum, set_id, name, source, None, 0, 1.0, 1.0, _splits(splits))
    return new_handle(Pending([native], lambda results: _with_splits(source, results[0])))


def alltoall(
    tensor: Tensor, splits: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Sends the i-th part of the first dimension to rank i, and returns the parts received, in the order of ranks.

    `splits` says how many rows go to each rank; without it they are equal. With splits the result is
    (output, received_splits).
    """
    source = contiguous(tensor)
    set_id = set_id_of(process_set)
    result = _core.run(Kind.ALLTOALL, Sum, set_id, name, source, None, 0, 1.0, 1.0, _splits(splits))
    return own_kind(source, result[0]) if splits is None else _with_splits(source, result)


def _with_splits(source: Tensor, result: Any) -> tuple[Any, Array]:
    return own_kind(source, result[0]), np.array(result[1], np.int32)


def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts reducescatter() and returns a handle."""
    return new_handle(
        _into_new(False, Kind.REDUCESCATTER, tensor, name, process_set, op, 0, prescale_factor, postscale_factor)
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
    return _into_new(True, Kind.REDUCESCATTER, tensor, name, process_set, op, 0, prescale_factor, postscale_factor)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns once all ranks of the set have called it."""
    _core.run(Kind.BARRIER, Sum, set_id_of(process_set), None, None, None, 0, 1.0, 1.0, _NO_SPLITS)


def join(device: int = -1) -> int:
    """Says that this rank has no more data, and waits until all ranks have said so. Returns the last one to.

    Until then this rank takes part in the others' allreduce, allgather, broadcast and barrier with zeros, or nothing.
    `device` is accepted for Horovod's sake.
    """
    del device
    result = _core.run(Kind.JOIN, Sum, 0, "join", None, None, 0, 1.0, 1.0, _NO_SPLITS)
    return int(result[2])
