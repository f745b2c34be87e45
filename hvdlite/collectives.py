"""Collectives on numpy arrays and everything that speaks DLPack.

Each comes in up to four forms: plain (returns a new array), `_async` (returns a handle for synchronize() or poll()), in
place (trailing underscore), and both. Results are numpy arrays, or of the input's own kind where that has a
`from_dlpack`. All ranks of the process set must ask for the same operations under the same names; operations without a
name are matched in the order of the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hvdlite import _core
from hvdlite.arrays import Tensor, contiguous, empty_like, own_kind
from hvdlite.handles import Pending, new_handle, run_now
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
        kind, op, set_id_of(process_set), name, tensor, output, root, prescale, postscale, splits, will_wait
    )


# ---- Allreduce ------------------------------------------------------------------------------------------------------


def _start_allreduce(
    tensor: Tensor,
    name: str | None,
    op: int,
    pre: float,
    post: float,
    process_set: ProcessSet,
    will_wait: bool,
) -> Pending:
    source = contiguous(tensor)
    output = empty_like(source)
    native = _submit(
        Kind.ALLREDUCE,
        source,
        output,
        name,
        process_set,
        op=op,
        prescale=pre,
        postscale=post,
        will_wait=will_wait,
    )
    if output is not None:
        return Pending([native], (source, output), lambda results: output)
    return Pending([native], source, lambda results: own_kind(source, results[0][0]))


def _start_in_place(tensor: Tensor, submit: Callable[[Tensor], int]) -> Pending:
    """Runs an in-place operation on the tensor, or on a contiguous copy that is copied back at the end."""
    if isinstance(tensor, (int, float, bool, np.generic, list, tuple)):
        raise TypeError(f"an in-place operation needs a tensor to write into, not {type(tensor).__name__}")
    if isinstance(tensor, np.ndarray) and not tensor.flags.writeable:
        raise ValueError(
            "the tensor is read-only, so the result cannot be written into it; pass a copy, or use the form without _"
        )
    work = contiguous(tensor)
    native = submit(work)
    if work is tensor or (
        work is not tensor and getattr(work, "data_ptr", None) and work.data_ptr() == tensor.data_ptr()
    ):
        return Pending([native], work, lambda results: tensor)

    def copy_back(results: list[Any]) -> Tensor:
        tensor[...] = work
        return tensor

    return Pending([native], (work, tensor), copy_back)


def _start_allreduce_(
    tensor: Tensor,
    name: str | None,
    op: int,
    pre: float,
    post: float,
    process_set: ProcessSet,
    will_wait: bool,
) -> Pending:
    return _start_in_place(
        tensor,
        lambda work: _submit(
            Kind.ALLREDUCE,
            work,
            work,
            name,
            process_set,
            op=op,
            prescale=pre,
            postscale=post,
            will_wait=will_wait,
        ),
    )


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
    return new_handle(_start_allreduce(tensor, name, reduction, prescale_factor, postscale_factor, process_set, False))


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
    return run_now(_start_allreduce(tensor, name, reduction, prescale_factor, postscale_factor, process_set, True))


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
    return new_handle(_start_allreduce_(tensor, name, reduction, prescale_factor, postscale_factor, process_set, False))


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
    return run_now(_start_allreduce_(tensor, name, reduction, prescale_factor, postscale_factor, process_set, True))


# ---- The others -----------------------------------------------------------------------------------------------------


def _start_allgather(tensor: Tensor, name: str | None, process_set: ProcessSet, will_wait: bool) -> Pending:
    source = contiguous(tensor)
    native = _submit(Kind.ALLGATHER, source, None, name, process_set, will_wait=will_wait)
    return Pending([native], source, lambda results: own_kind(source, results[0][0]))


def allgather_async(tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Starts allgather() and returns a handle."""
    return new_handle(_start_allgather(tensor, name, process_set, False))


def allgather(tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """Concatenates the tensors of all ranks along their first dimension, which may differ from rank to rank."""
    return run_now(_start_allgather(tensor, name, process_set, True))


def _start_broadcast(
    tensor: Tensor, root_rank: int, name: str | None, process_set: ProcessSet, will_wait: bool
) -> Pending:
    source = contiguous(tensor)
    output = empty_like(source)
    native = _submit(Kind.BROADCAST, source, output, name, process_set, root=root_rank, will_wait=will_wait)
    if output is not None:
        return Pending([native], (source, output), lambda results: output)
    return Pending([native], source, lambda results: own_kind(source, results[0][0]))


def _start_broadcast_(
    tensor: Tensor, root_rank: int, name: str | None, process_set: ProcessSet, will_wait: bool
) -> Pending:
    return _start_in_place(
        tensor,
        lambda work: _submit(Kind.BROADCAST, work, work, name, process_set, root=root_rank, will_wait=will_wait),
    )


def broadcast_async(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts broadcast() and returns a handle."""
    return new_handle(_start_broadcast(tensor, root_rank, name, process_set, False))


def broadcast(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Returns the tensor of `root_rank` (a global rank, also in a process set). Shapes must be equal on all ranks."""
    return run_now(_start_broadcast(tensor, root_rank, name, process_set, True))


def broadcast_async_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts broadcast_() and returns a handle."""
    return new_handle(_start_broadcast_(tensor, root_rank, name, process_set, False))


def broadcast_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """broadcast() in place. Returns the tensor."""
    return run_now(_start_broadcast_(tensor, root_rank, name, process_set, True))


def _start_alltoall(
    tensor: Tensor, splits: Any, name: str | None, process_set: ProcessSet, will_wait: bool, pair: bool
) -> Pending:
    source = contiguous(tensor)
    parts: list[int] = _NO_SPLITS
    if splits is not None:
        array = np.asarray(splits)
        if array.ndim != 1 or not (array.size == 0 or np.issubdtype(array.dtype, np.integer)):
            raise ValueError("splits must be a one-dimensional sequence of integers")
        if array.size == 0:
            raise ValueError("splits must have one entry for each member of the process set")
        parts = [int(s) for s in array]
    native = _submit(Kind.ALLTOALL, source, None, name, process_set, splits=parts, will_wait=will_wait)

    def finish(results: list[Any]) -> Any:
        output = own_kind(source, results[0][0])
        return (output, np.array(results[0][1], np.int32)) if pair else output

    return Pending([native], source, finish)


def alltoall_async(
    tensor: Tensor, splits: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts alltoall() and returns a handle; synchronize() then always returns (output, received_splits)."""
    return new_handle(_start_alltoall(tensor, splits, name, process_set, False, True))


def alltoall(
    tensor: Tensor, splits: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Sends the i-th part of the first dimension to rank i, and returns the parts received, in the order of ranks.

    `splits` says how many rows go to each rank; without it they are equal. With splits the result is
    (output, received_splits).
    """
    return run_now(_start_alltoall(tensor, splits, name, process_set, True, splits is not None))


def _start_reducescatter(
    tensor: Tensor,
    name: str | None,
    op: int,
    process_set: ProcessSet,
    pre: float,
    post: float,
    will_wait: bool,
) -> Pending:
    source = contiguous(tensor)
    native = _submit(
        Kind.REDUCESCATTER,
        source,
        None,
        name,
        process_set,
        op=op,
        prescale=pre,
        postscale=post,
        will_wait=will_wait,
    )
    return Pending([native], source, lambda results: own_kind(source, results[0][0]))


def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts reducescatter() and returns a handle."""
    return new_handle(_start_reducescatter(tensor, name, op, process_set, prescale_factor, postscale_factor, False))


def reducescatter(
    tensor: Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Reduces the tensors of all ranks and returns this rank's part of the rows; earlier ranks get the odd ones."""
    return run_now(_start_reducescatter(tensor, name, op, process_set, prescale_factor, postscale_factor, True))


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns once all ranks of the set have called it."""
    _core.wait(_submit(Kind.BARRIER, None, None, None, process_set, will_wait=True))


def join(device: int = -1) -> int:
    """Says that this rank has no more data, and waits until all ranks have said so. Returns the last one to.

    Until then this rank takes part in the others' allreduce, allgather, broadcast and barrier with zeros, or nothing.
    `device` is accepted for Horovod's sake.
    """
    del device
    native = _core.submit(Kind.JOIN, Sum, 0, "join", None, None, 0, 1.0, 1.0, _NO_SPLITS, True)
    return int(_core.wait(native)[2])
