"""Collectives on numpy arrays and every object with DLPack.

Each has up to four forms: plain (returns a new array), `_async` (returns a handle for synchronize()
or poll()), in place (trailing underscore), and both. `grouped_` forms take several tensors, which
become ready, are carried out and fail together. Results are numpy arrays, or arrays of the input's
kind if that has a `from_dlpack`. All ranks of the process set must call the same operations under
the same names. Operations without a name are matched in the order of the calls.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from hvdlite.base.operations import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BARRIER,
    BROADCAST,
    JOIN,
    REDUCE,
    REDUCESCATTER,
)
from hvdlite.base.ops import Average, Sum, reduction_of
from hvdlite.core import engine
from hvdlite.core.arrays.framework import ArrayFramework, Tensor
from hvdlite.core.collectives import Collectives
from hvdlite.core.engine import new_handle
from hvdlite.core.operations import Call
from hvdlite.core.plans import Plan
from hvdlite.core.process_sets import ProcessSet, global_process_set, set_id_of

OPS = Collectives(ArrayFramework(), scatters_any=True)
_run = OPS.run_one
_NO_BYTES = np.dtype([])  # for numpy's own judgement of a shape


def _start(call: Call, tensors: Sequence[Tensor]) -> int:
    return new_handle(OPS.start(call, tensors))


def _run_group(call: Call, tensors: Sequence[Tensor]) -> list[Any]:
    return list(OPS.run(call, tensors))


# ---- Allreduce


def allreduce_async(tensor: Tensor, average: bool | None = None, name: str | None = None,
                    op: int | None = None, prescale_factor: float = 1.0,
                    postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts allreduce() and returns a handle."""
    op = reduction_of(average, op)
    call = Call(ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor)
    return _start(call, [tensor])


def allreduce(tensor: Tensor, average: bool | None = None, name: str | None = None,
              op: int | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """Combines the tensors of all ranks element by element; returns the same bits on every rank.

    `op` is hvd.Average (the default), Sum, Min, Max, Product or Adasum; the factors are applied to
    each input and to the result. float16 and bfloat16 are added in float32.
    """
    op = reduction_of(average, op)
    return _run(tensor, ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor)


def allreduce_async_(tensor: Tensor, average: bool | None = None, name: str | None = None,
                     op: int | None = None, prescale_factor: float = 1.0,
                     postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts allreduce_() and returns a handle."""
    op = reduction_of(average, op)
    if process_set is global_process_set:
        started = engine.start_in_place(op, 0, name, tensor, prescale_factor, postscale_factor)
        if started is not None:
            return started
    call = Call(ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor, in_place=True)
    return _start(call, [tensor])


def allreduce_(tensor: Tensor, average: bool | None = None, name: str | None = None,
               op: int | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """allreduce() in place. Returns the tensor."""
    op = reduction_of(average, op)
    # run_one() asks run_in_place() as well. To ask here first saves a microsecond, which is a good
    # part of a small allreduce.
    if process_set is global_process_set and engine.run_in_place(
        op, 0, name, tensor, prescale_factor, postscale_factor
    ):
        return tensor
    return _run(
        tensor, ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor, in_place=True
    )


def grouped_allreduce_async(tensors: Sequence[Tensor], average: bool | None = None,
                            name: str | None = None, op: int | None = None,
                            prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts grouped_allreduce() and returns one handle for all; its result is a tuple."""
    op = reduction_of(average, op)
    call = Call(ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor, grouped=True)
    return _start(call, tensors)


def grouped_allreduce(tensors: Sequence[Tensor], average: bool | None = None,
                      name: str | None = None, op: int | None = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> list[Any]:  # fmt: skip
    """allreduce() of several tensors as one operation. Returns a list."""
    op = reduction_of(average, op)
    call = Call(ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor, grouped=True)
    return _run_group(call, tensors)


def grouped_allreduce_async_(tensors: Sequence[Tensor], average: bool | None = None,
                             name: str | None = None, op: int | None = None,
                             prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts grouped_allreduce_() and returns one handle for all; its result is a tuple."""
    op = reduction_of(average, op)
    if process_set is global_process_set:
        started = engine.start_list_in_place(
            op, 0, name, tensors, prescale_factor, postscale_factor, np.ndarray
        )
        if started is not None:
            return started
    how = (ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor)
    return _start(Call(*how, in_place=True, grouped=True), tensors)


def grouped_allreduce_(tensors: Sequence[Tensor], average: bool | None = None,
                       name: str | None = None, op: int | None = None, prescale_factor: float = 1.0,
                       postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> list[Any]:  # fmt: skip
    """grouped_allreduce() in place. Returns the tensors."""
    op = reduction_of(average, op)
    if process_set is global_process_set and engine.run_list_in_place(
        op, 0, name, tensors, prescale_factor, postscale_factor, np.ndarray
    ):
        return list(tensors)
    how = (ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor)
    return _run_group(Call(*how, in_place=True, grouped=True), tensors)


def plan(tensors: Sequence[Tensor], op: int | None = None, name: str | None = None,
         prescale_factor: float = 1.0, postscale_factor: float = 1.0,
         process_set: ProcessSet = global_process_set) -> Plan:  # fmt: skip
    """A grouped_allreduce_() of the same tensors again and again: start() and wait() once per step.

    A plan without a name gets one when it is first started: start new plans in the same order on
    all ranks.
    """
    start = partial(grouped_allreduce_async_, op=op, prescale_factor=prescale_factor,
                    postscale_factor=postscale_factor, process_set=process_set)  # fmt: skip
    return Plan(tensors, name, start)


# ---- The others


def allgather_async(
    tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts allgather() and returns a handle."""
    return _start(Call(ALLGATHER, name, process_set), [tensor])


def allgather(
    tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Concatenates the tensors of all ranks along their first dimension, which may differ between
    ranks."""
    return _run(tensor, ALLGATHER, name, process_set)


def grouped_allgather_async(tensors: Sequence[Tensor], name: str | None = None,
                            process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts grouped_allgather() and returns one handle for all; its result is a tuple."""
    return _start(Call(ALLGATHER, name, process_set, grouped=True), tensors)


def grouped_allgather(tensors: Sequence[Tensor], name: str | None = None,
                      process_set: ProcessSet = global_process_set) -> list[Any]:  # fmt: skip
    """allgather() of several tensors as one operation. Returns a list."""
    return _run_group(Call(ALLGATHER, name, process_set, grouped=True), tensors)


def broadcast_async(tensor: Tensor, root_rank: int, name: str | None = None,
                    process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts broadcast() and returns a handle."""
    return _start(Call(BROADCAST, name, process_set, Sum, 1.0, 1.0, root_rank), [tensor])


def broadcast(tensor: Tensor, root_rank: int, name: str | None = None,
              process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """Returns the tensor of `root_rank`, a global rank also in a process set. Shapes must be equal
    on all ranks."""
    return _run(tensor, BROADCAST, name, process_set, root=root_rank)


def broadcast_async_(tensor: Tensor, root_rank: int, name: str | None = None,
                     process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts broadcast_() and returns a handle."""
    call = Call(BROADCAST, name, process_set, Sum, 1.0, 1.0, root_rank, in_place=True)
    return _start(call, [tensor])


def broadcast_(tensor: Tensor, root_rank: int, name: str | None = None,
               process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """broadcast() in place. Returns the tensor."""
    return _run(tensor, BROADCAST, name, process_set, root=root_rank, in_place=True)


def alltoall_async(tensor: Tensor, splits: Any = None, name: str | None = None,
                   process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts alltoall() and returns a handle. synchronize() then always returns (output,
    received_splits)."""
    return _start(Call(ALLTOALL, name, process_set, Sum, 1.0, 1.0, 0, _splits(splits)), [tensor])


def alltoall(tensor: Tensor, splits: Any = None, name: str | None = None,
             process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """Sends the i-th part of the first dimension to rank i and returns the parts received, in the
    order of ranks.

    `splits` lists how many rows go to each rank; without it the parts are equal. With `splits`, the
    result is (output, received_splits).
    """
    both = _run(tensor, ALLTOALL, name, process_set, splits=_splits(splits))
    return both[0] if splits is None else both


def reducescatter_async(tensor: Tensor, name: str | None = None, op: int = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> int:  # fmt: skip
    """Starts reducescatter() and returns a handle."""
    call = Call(REDUCESCATTER, name, process_set, op, prescale_factor, postscale_factor)
    return _start(call, [tensor])


def reducescatter(tensor: Tensor, name: str | None = None, op: int = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> Any:  # fmt: skip
    """Reduces the tensors of all ranks and returns this rank's part of the rows.

    If the rows do not divide evenly, lower ranks get one more.
    """
    return _run(tensor, REDUCESCATTER, name, process_set, op, prescale_factor, postscale_factor)


def reduce_async(tensor: Tensor, root_rank: int, name: str | None = None, op: int = Average,
                 process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                 postscale_factor: float = 1.0) -> int:  # fmt: skip
    """Starts reduce() and returns a handle."""
    call = Call(REDUCE, name, process_set, op, prescale_factor, postscale_factor, root_rank)
    return _start(call, [tensor])


def reduce(tensor: Tensor, root_rank: int, name: str | None = None, op: int = Average,
           process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
           postscale_factor: float = 1.0) -> Any:  # fmt: skip
    """Combines the tensors of all ranks on `root_rank`, a global rank. The other ranks get their
    own tensor back.

    Moves half of the bytes that allreduce() moves between ranks.
    """
    return _run(tensor, REDUCE, name, process_set, op, prescale_factor, postscale_factor, root_rank)


def grouped_reducescatter_async(tensors: Sequence[Tensor], name: str | None = None,
                                op: int = Average, process_set: ProcessSet = global_process_set,
                                prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> int:  # fmt: skip
    """Starts grouped_reducescatter() and returns one handle for all; its result is a tuple."""
    how = (REDUCESCATTER, name, process_set, op, prescale_factor, postscale_factor)
    return _start(Call(*how, grouped=True), tensors)


def grouped_reducescatter(tensors: Sequence[Tensor], name: str | None = None, op: int = Average,
                          process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> list[Any]:  # fmt: skip
    """reducescatter() of several tensors as one operation. Returns a list."""
    how = (REDUCESCATTER, name, process_set, op, prescale_factor, postscale_factor)
    return _run_group(Call(*how, grouped=True), tensors)


def _splits(splits: Any) -> list[int] | None:
    if splits is None:
        return None
    array = np.asarray(splits)
    if array.ndim != 1 or not (array.size == 0 or np.issubdtype(array.dtype, np.integer)):
        raise ValueError("splits must be a one-dimensional sequence of integers")
    return [int(s) for s in array]


# ---- Without tensors


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the set have called it."""
    engine.run(BARRIER.kind, Sum, set_id_of(process_set), None, None, None, 0, 1.0, 1.0, [])


def join(device: int = -1) -> int:
    """Declares that this rank has no more data, and waits until all ranks have called it.

    Until then this rank takes part in the others' allreduce, allgather, broadcast and barrier with
    zeros or with nothing. Returns the rank that joined last. `device` is accepted for Horovod's
    sake.
    """
    del device
    result = engine.run(JOIN.kind, Sum, 0, "join", None, None, 0, 1.0, 1.0, [])
    return int(result[2])


# ---- Arrays in memory that the ranks of a host share


def empty(shape: Any, dtype: Any = "float32") -> np.ndarray[Any, Any]:
    """numpy.empty() in memory that the ranks of this host share.

    allreduce_() reduces such an array where it lies, which takes less than half of the time for
    large arrays. All ranks of the host must allocate theirs here. The memory lives as long as an
    array or tensor refers to it, also after shutdown(). A forked child has a private copy.

    The array is an ordinary one where no memory can be shared: before init(), for a rank alone on
    its host, below 16 KiB, without memory, with HVDLITE_GRADIENT_POOL=0 or beyond
    HVDLITE_GRADIENT_POOL_BYTES. It can be used in the same way. in_shared_memory() tells which it
    is. An array of a job that has failed is not shared in the next job.
    """
    kind = np.dtype(dtype)
    bytes = math.prod(np.empty(shape, _NO_BYTES).shape) * kind.itemsize
    can_share = 0 < bytes <= sys.maxsize and not kind.hasobject
    block = engine.pool_allocate(bytes) if can_share else None
    return np.empty(shape, kind) if block is None else np.ndarray(shape, kind, memoryview(block))


def in_shared_memory(tensor: Any) -> bool:
    """Whether an array, or an object with DLPack, lies in the memory that the ranks of this host
    share. allreduce_() is faster if it does on all of them."""
    array = tensor if isinstance(tensor, np.ndarray) else np.from_dlpack(tensor)
    return engine.pool_offset(array.__array_interface__["data"][0]) >= 0
