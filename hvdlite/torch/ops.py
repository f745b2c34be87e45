"""Collectives on torch tensors, with Horovod's signatures.

The plain forms are differentiable. Names, factors, reductions and process sets are documented in
hvdlite.core.arrays.ops; what an operation does to a gradient, in hvdlite.core.gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from hvdlite.adapter.compression import Method, compressed, compressed_allreduce
from hvdlite.base.operations import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCE, REDUCESCATTER
from hvdlite.base.ops import Adasum, Average, Max, Min, Product, Sum, reduction_of
from hvdlite.core import engine
from hvdlite.core.arrays.ops import barrier, join
from hvdlite.core.collectives import Collectives
from hvdlite.core.gradients import Rule
from hvdlite.core.handles import poll, synchronize
from hvdlite.core.operations import Call
from hvdlite.core.plans import Plan
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.torch import older, sparse, traced
from hvdlite.torch.compression import Compression
from hvdlite.torch.framework import FRAMEWORK

__all__ = [
    "Adasum", "Average", "Max", "Min", "Product", "Sum",
    "allgather", "allgather_async", "allreduce", "allreduce_", "allreduce_async",
    "allreduce_async_", "alltoall", "alltoall_async", "barrier", "broadcast", "broadcast_",
    "broadcast_async", "broadcast_async_", "grouped_allgather", "grouped_allgather_async",
    "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async",
    "grouped_allreduce_async_", "grouped_reducescatter", "grouped_reducescatter_async",
    "join", "plan", "poll", "reduce", "reduce_async", "reducescatter",
    "reducescatter_async", "sparse_allreduce_async", "synchronize",
]  # fmt: skip

OPS = Collectives(FRAMEWORK)


# ---- Allreduce -----------------------------------------------------------------------------------


def allreduce_async(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
                    op: int | None = None, prescale_factor: float = 1.0,
                    postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts allreduce() and returns a handle."""
    op = reduction_of(average, op)
    call = Call(ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor)
    return _start(call, [tensor])


def allreduce(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
              compression: Any = Compression.none, op: int | None = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:  # fmt: skip
    """Combines the tensors of all ranks element by element; a new tensor, the same bits on every
    rank."""
    op = reduction_of(average, op)
    if compression is Compression.none and _is_plain(tensor):
        return OPS.run_one(
            tensor, ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor
        )
    call = Call(ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor)
    return _run(call, [tensor], compression)[0]


def allreduce_async_(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
                     op: int | None = None, prescale_factor: float = 1.0,
                     postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts allreduce_() and returns a handle."""
    op = reduction_of(average, op)
    if process_set is global_process_set and isinstance(tensor, torch.Tensor):
        started = engine.start_in_place(op, 0, name, tensor, prescale_factor, postscale_factor)
        if started is not None:
            older.have_changed((tensor,))
            return started
    call = Call(ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor, in_place=True)
    return _start(call, [tensor])


def allreduce_(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
               op: int | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:  # fmt: skip
    """allreduce() in place. Returns the tensor."""
    op = reduction_of(average, op)
    plain = _is_plain(tensor)
    # run_one() asks run_in_place() as well: to ask here first saves a microsecond.
    if (
        plain
        and process_set is global_process_set
        and isinstance(tensor, torch.Tensor)
        and engine.run_in_place(op, 0, name, tensor, prescale_factor, postscale_factor)
    ):
        older.have_changed((tensor,))
        return tensor
    how = (ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor)
    if plain:
        return OPS.run_one(tensor, *how, in_place=True)
    return _run(Call(*how, in_place=True), [tensor])[0]


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: bool | None = None,
                            name: str | None = None, op: int | None = None,
                            prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts grouped_allreduce() and returns one handle for all; its result is a tuple."""
    op = reduction_of(average, op)
    call = Call(ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor, grouped=True)
    return _start(call, tensors)


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: bool | None = None,
                      name: str | None = None, compression: Any = Compression.none,
                      op: int | None = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
                      ) -> list[torch.Tensor]:  # fmt: skip
    """allreduce() of several tensors that become ready, travel and fail together."""
    op = reduction_of(average, op)
    call = Call(ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor, grouped=True)
    return _run(call, tensors, compression)


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: bool | None = None,
                             name: str | None = None, op: int | None = None,
                             prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts grouped_allreduce_() and returns one handle for all."""
    op = reduction_of(average, op)
    if process_set is global_process_set:
        started = engine.start_list_in_place(
            op, 0, name, tensors, prescale_factor, postscale_factor, torch.Tensor
        )
        if started is not None:
            older.have_changed(tuple(tensors))
            return started
    how = (ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor)
    return _start(Call(*how, in_place=True, grouped=True), tensors)


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: bool | None = None,
                       name: str | None = None, op: int | None = None, prescale_factor: float = 1.0,
                       postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
                       ) -> list[torch.Tensor]:  # fmt: skip
    """grouped_allreduce() in place. Returns the tensors."""
    op = reduction_of(average, op)
    if (
        process_set is global_process_set
        and _are_plain(tensors)
        and engine.run_list_in_place(
            op, 0, name, tensors, prescale_factor, postscale_factor, torch.Tensor
        )
    ):
        older.have_changed(tuple(tensors))
        return list(tensors)
    how = (ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor)
    return _run(Call(*how, in_place=True, grouped=True), tensors)


def plan(tensors: Sequence[torch.Tensor], op: int | None = None, name: str | None = None,
         prescale_factor: float = 1.0, postscale_factor: float = 1.0,
         process_set: ProcessSet = global_process_set) -> Plan:  # fmt: skip
    """A grouped_allreduce_() of the same tensors again and again: see hvdlite.core.plans."""
    start = partial(grouped_allreduce_async_, op=op, prescale_factor=prescale_factor,
                    postscale_factor=postscale_factor, process_set=process_set)  # fmt: skip
    return Plan(tensors, name, start)


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str, op: int, process_set: ProcessSet = global_process_set
) -> Callable[[], torch.Tensor]:  # fmt: skip
    """Starts the reduction of a sparse COO tensor; returns a function that waits and returns the
    result."""
    return sparse.start(OPS, tensor, name, op, process_set)


# ---- The others ----------------------------------------------------------------------------------


def allgather_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts allgather() and returns a handle."""
    return _start(Call(ALLGATHER, name, process_set), [tensor])


def allgather(tensor: torch.Tensor, name: str | None = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:  # fmt: skip
    """Concatenates the tensors of all ranks along their first dimension, which may differ from rank
    to rank."""
    return _run(Call(ALLGATHER, name, process_set), [tensor])[0]


def grouped_allgather_async(tensors: Sequence[torch.Tensor], name: str | None = None,
                            process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts grouped_allgather() and returns one handle for all; its result is a tuple."""
    return _start(Call(ALLGATHER, name, process_set, grouped=True), tensors)


def grouped_allgather(tensors: Sequence[torch.Tensor], name: str | None = None,
                      process_set: ProcessSet = global_process_set,
                      ) -> list[torch.Tensor]:  # fmt: skip
    """allgather() of several tensors that travel together."""
    return _run(Call(ALLGATHER, name, process_set, grouped=True), tensors)


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: str | None = None,
                    process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts broadcast() and returns a handle."""
    return _start(Call(BROADCAST, name, process_set, root=root_rank), [tensor])


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:  # fmt: skip
    """Returns the tensor of `root_rank` (a global rank, also in a process set). Shapes must be
    equal on all ranks."""
    return _run(Call(BROADCAST, name, process_set, root=root_rank), [tensor])[0]


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: str | None = None,
                     process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts broadcast_() and returns a handle."""
    return _start(Call(BROADCAST, name, process_set, root=root_rank, in_place=True), [tensor])


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:  # fmt: skip
    """broadcast() in place. Returns the tensor."""
    return _run(Call(BROADCAST, name, process_set, root=root_rank, in_place=True), [tensor])[0]


def alltoall_async(tensor: torch.Tensor, splits: Any = None, name: str | None = None,
                   process_set: ProcessSet = global_process_set) -> int:  # fmt: skip
    """Starts alltoall() and returns a handle; synchronize() then returns (output, received_splits)
    in any case."""
    return _start(_alltoall(name, process_set, splits), [tensor])


def alltoall(tensor: torch.Tensor, splits: Any = None, name: str | None = None,
             process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """Sends the i-th part of the first dimension to rank i; returns the parts received, in the
    order of the ranks.

    `splits` (int32, or a list) says how many rows each rank gets; the result is then (output,
    received_splits).
    """
    results = _run(_alltoall(name, process_set, splits), [tensor])
    return results[0] if splits is None else tuple(results)


def reducescatter_async(tensor: torch.Tensor, name: str | None = None, op: int = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> int:  # fmt: skip
    """Starts reducescatter() and returns a handle."""
    call = Call(REDUCESCATTER, name, process_set, op, prescale_factor, postscale_factor)
    return _start(call, [tensor])


def reducescatter(tensor: torch.Tensor, name: str | None = None,
                  compression: Any = Compression.none, op: int = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:  # fmt: skip
    """Reduces the tensors of all ranks and returns this rank's part of the rows.

    If the rows do not divide evenly, lower ranks get one more.
    """
    call = Call(REDUCESCATTER, name, process_set, op, prescale_factor, postscale_factor)
    return _run(call, [tensor], compression)[0]


def reduce_async(tensor: torch.Tensor, root_rank: int, name: str | None = None, op: int = Average,
                 process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                 postscale_factor: float = 1.0) -> int:  # fmt: skip
    """Starts reduce() and returns a handle."""
    call = Call(REDUCE, name, process_set, op, prescale_factor, postscale_factor, root_rank)
    return _start(call, [tensor])


def reduce(tensor: torch.Tensor, root_rank: int, name: str | None = None,
           compression: Any = Compression.none, op: int = Average,
           process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
           postscale_factor: float = 1.0) -> torch.Tensor:  # fmt: skip
    """Combines the tensors of all ranks on `root_rank`, a global rank; the other ranks get their
    own tensor back.

    Moves half of the bytes that allreduce() moves between ranks.
    """
    call = Call(REDUCE, name, process_set, op, prescale_factor, postscale_factor, root_rank)
    return _run(call, [tensor], compression)[0]


def grouped_reducescatter_async(tensors: Sequence[torch.Tensor], name: str | None = None,
                                op: int = Average, process_set: ProcessSet = global_process_set,
                                prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> int:  # fmt: skip
    """Starts grouped_reducescatter() and returns one handle for all; its result is a tuple."""
    how = (REDUCESCATTER, name, process_set, op, prescale_factor, postscale_factor)
    return _start(Call(*how, grouped=True), tensors)


def grouped_reducescatter(tensors: Sequence[torch.Tensor], name: str | None = None,
                          compression: Any = Compression.none, op: int = Average,
                          process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> list[torch.Tensor]:  # fmt: skip
    """reducescatter() of several tensors that travel together."""
    how = (REDUCESCATTER, name, process_set, op, prescale_factor, postscale_factor)
    return _run(Call(*how, grouped=True), tensors, compression)


# ---- How they run --------------------------------------------------------------------------------


def _start(call: Call, tensors: Sequence[torch.Tensor]) -> int:
    return engine.new_handle(OPS.start(call, tensors))


def _run(
    call: Call, tensors: Sequence[torch.Tensor], compression: Any = Compression.none
) -> list[torch.Tensor]:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"expected a list of tensors, got {type(tensors).__name__}")
    if getattr(compression, "communicate", None) is not None:
        raise ValueError(
            "this compression's communicate() replaces the reduction of gradients: pass it to "
            "hvd.DistributedOptimizer or hvd.ddp_comm_hook"
        )
    if isinstance(compression, Method):
        with torch.no_grad():
            return compressed_allreduce(compression, OPS, call, tensors)
    if not traced.is_compiling() or call.splits is not None:
        rule = Rule(OPS, call)
        return compressed(compression, tensors, call.name, partial(FRAMEWORK.differentiable, rule))
    results = compressed(compression, tensors, call.name, partial(traced.emit, call))
    if not call.in_place:
        return results
    return [tensor.copy_(result) for tensor, result in zip(tensors, results, strict=True)]


def _is_plain(tensor: Any) -> bool:
    """Whether nothing has to be recorded, as in most calls."""
    if traced.is_compiling():  # asked first: torch 2.4 does not compile what comes behind
        return False
    return not (getattr(tensor, "requires_grad", False) and torch.is_grad_enabled())


def _are_plain(tensors: Any) -> bool:
    if traced.is_compiling() or not isinstance(tensors, (list, tuple)):
        return False
    return not (
        torch.is_grad_enabled() and any(getattr(t, "requires_grad", False) for t in tensors)
    )


def _alltoall(name: str | None, process_set: ProcessSet, splits: Any) -> Call:
    like = splits if isinstance(splits, torch.Tensor) else None
    return Call(ALLTOALL, name, process_set, splits=_splits(splits), splits_like=like)


def _splits(splits: Any) -> list[int] | None:
    if splits is None:
        return None
    if not isinstance(splits, torch.Tensor):
        splits = torch.tensor(splits, dtype=None if len(splits) else torch.int32)
        if splits.dtype == torch.int64:
            splits = splits.to(torch.int32)
    if splits.dtype != torch.int32 or splits.dim() != 1:
        raise ValueError(
            "alltoall: splits must be one-dimensional and of dtype int32, not "
            f"{splits.dim()}-dimensional {splits.dtype}"
        )
    return [int(n) for n in splits]
