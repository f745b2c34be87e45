"""Collectives on torch tensors, with Horovod's signatures.

The plain forms are differentiable. Names, factors, reductions and process sets are documented in hvdlite.collectives;
what an operation does to a gradient, in hvdlite.adapter.gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hvdlite.adapter import engine
from hvdlite.adapter.collectives import Collectives
from hvdlite.adapter.compression import Settled
from hvdlite.adapter.gradients import Allgather, Allreduce, Alltoall, Broadcast, Reducescatter
from hvdlite.basics import is_homogeneous
from hvdlite.collectives import barrier, join
from hvdlite.exceptions import HorovodInternalError
from hvdlite.handles import poll, synchronize
from hvdlite.ops import Adasum, Average, Max, Min, Product, Sum, reduction_of
from hvdlite.process_sets import ProcessSet, global_process_set, set_id_of
from hvdlite.torch import sparse, traced
from hvdlite.torch.compression import Compression
from hvdlite.torch.framework import FRAMEWORK

__all__ = [
    "Adasum", "Average", "HorovodInternalError", "Max", "Min", "Product", "Sum",
    "allgather", "allgather_async", "allreduce", "allreduce_", "allreduce_async", "allreduce_async_",
    "alltoall", "alltoall_async", "barrier", "broadcast", "broadcast_", "broadcast_async", "broadcast_async_",
    "grouped_allgather", "grouped_allgather_async", "grouped_allreduce", "grouped_allreduce_",
    "grouped_allreduce_async", "grouped_allreduce_async_", "grouped_reducescatter", "grouped_reducescatter_async",
    "is_homogeneous", "join", "poll", "reducescatter", "reducescatter_async", "sparse_allreduce_async", "synchronize",
]  # fmt: skip

OPS = Collectives(FRAMEWORK)
_differentiable = FRAMEWORK.differentiable


# fmt: off  (a signature is read as a whole)
# ---- Allreduce ------------------------------------------------------------------------------------------------------


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts allreduce() and returns a handle."""
    op = reduction_of(average, op)
    return engine.new_handle(OPS.allreduce(tensor, name, op, prescale_factor, postscale_factor, process_set))


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combines the tensors of all ranks element by element; a new tensor, the same bits on every rank."""
    op = reduction_of(average, op)
    if traced.is_compiling():
        how = (op, float(prescale_factor), float(postscale_factor), set_id_of(process_set), name)
        return _compressed(compression, [tensor], name, lambda p: [torch.ops.hvdlite.allreduce(p[0], *how)])[0]
    if compression is Compression.none and not _needs_gradient(tensor):
        return OPS.allreduce(tensor, name, op, prescale_factor, postscale_factor, process_set, now=True)
    rule = Allreduce(OPS, name, process_set, False, op, prescale_factor, postscale_factor)
    return _compressed(compression, [tensor], name, lambda payloads: _differentiable(rule, payloads))[0]


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts allreduce_() and returns a handle."""
    op = reduction_of(average, op)
    pending = OPS.allreduce(tensor, name, op, prescale_factor, postscale_factor, process_set, in_place=True)
    return engine.new_handle(pending)


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """allreduce() in place. Returns the tensor."""
    op = reduction_of(average, op)
    if traced.is_compiling():
        how = (op, float(prescale_factor), float(postscale_factor), set_id_of(process_set), name)
        return tensor.copy_(torch.ops.hvdlite.allreduce(tensor, *how))
    if not _needs_gradient(tensor):
        return OPS.allreduce(tensor, name, op, prescale_factor, postscale_factor, process_set, in_place=True, now=True)
    rule = Allreduce(OPS, name, process_set, False, op, prescale_factor, postscale_factor, in_place=True)
    return _differentiable(rule, [tensor])[0]


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts grouped_allreduce() and returns one handle for all; its result is a tuple."""
    op = reduction_of(average, op)
    return engine.new_handle(OPS.grouped_allreduce(tensors, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """allreduce() of several tensors that become ready, travel and fail together."""
    op = reduction_of(average, op)
    if traced.is_compiling():
        how = (op, float(prescale_factor), float(postscale_factor), set_id_of(process_set), name)
        return _compressed(compression, _list(tensors), name, lambda p: torch.ops.hvdlite.grouped_allreduce(p, *how))
    rule = Allreduce(OPS, name, process_set, True, op, prescale_factor, postscale_factor)
    return _compressed(compression, _list(tensors), name, lambda payloads: _differentiable(rule, payloads))


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts grouped_allreduce_() and returns one handle for all."""
    op = reduction_of(average, op)
    pending = OPS.grouped_allreduce(tensors, name, op, prescale_factor, postscale_factor, process_set, in_place=True)
    return engine.new_handle(pending)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """grouped_allreduce() in place. Returns the tensors."""
    op = reduction_of(average, op)
    if traced.is_compiling():
        how = (op, float(prescale_factor), float(postscale_factor), set_id_of(process_set), name)
        results = torch.ops.hvdlite.grouped_allreduce(_list(tensors), *how)
        return [tensor.copy_(result) for tensor, result in zip(tensors, results, strict=True)]
    rule = Allreduce(OPS, name, process_set, True, op, prescale_factor, postscale_factor, in_place=True)
    return list(_differentiable(rule, _list(tensors)))


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str, op: int, process_set: ProcessSet = global_process_set
) -> Callable[[], torch.Tensor]:
    """Starts the reduction of a sparse COO tensor; returns a function that waits and returns the result."""
    return sparse.start(OPS, tensor, name, op, process_set)


# ---- The others -----------------------------------------------------------------------------------------------------


def allgather_async(tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Starts allgather() and returns a handle."""
    return engine.new_handle(OPS.allgather(tensor, name, process_set))


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Concatenates the tensors of all ranks along their first dimension, which may differ from rank to rank."""
    if traced.is_compiling():
        rows = tensor.shape[0] * traced.members(set_id_of(process_set))
        return torch.ops.hvdlite.allgather(tensor, rows, set_id_of(process_set), name)
    rule = Allgather(OPS, name, process_set, False, _lengths([tensor]))
    return _differentiable(rule, [tensor])[0]


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts grouped_allgather() and returns one handle for all; its result is a tuple."""
    return engine.new_handle(OPS.grouped_allgather(tensors, name, process_set))


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[torch.Tensor]:
    """allgather() of several tensors that travel together."""
    if traced.is_compiling():
        rows = [tensor.shape[0] * traced.members(set_id_of(process_set)) for tensor in tensors]
        return list(torch.ops.hvdlite.grouped_allgather(_list(tensors), rows, set_id_of(process_set), name))
    rule = Allgather(OPS, name, process_set, True, _lengths(_list(tensors)))
    return list(_differentiable(rule, _list(tensors)))


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts broadcast() and returns a handle."""
    return engine.new_handle(OPS.broadcast(tensor, root_rank, name, process_set))


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """The tensor of `root_rank`, which is a global rank in process sets, too. Shapes must be equal on all ranks."""
    if traced.is_compiling():
        return torch.ops.hvdlite.broadcast(tensor, root_rank, set_id_of(process_set), name)
    return _differentiable(Broadcast(OPS, name, process_set, root=root_rank), [tensor])[0]


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts broadcast_() and returns a handle."""
    return engine.new_handle(OPS.broadcast(tensor, root_rank, name, process_set, in_place=True))


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """broadcast() in place. Returns the tensor."""
    if traced.is_compiling():
        return tensor.copy_(torch.ops.hvdlite.broadcast(tensor, root_rank, set_id_of(process_set), name))
    return _differentiable(Broadcast(OPS, name, process_set, root=root_rank, in_place=True), [tensor])[0]


def alltoall_async(
    tensor: torch.Tensor, splits: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts alltoall() and returns a handle; synchronize() then returns (output, received_splits) in any case."""
    like = splits if isinstance(splits, torch.Tensor) else None
    return engine.new_handle(OPS.alltoall(tensor, _splits(splits), like, name, process_set))


def alltoall(
    tensor: torch.Tensor, splits: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Sends the i-th part of the first dimension to rank i; returns the parts received, in the order of the ranks.

    `splits` (int32, or a list) says how many rows each rank gets; the result is then (output, received_splits).
    """
    if splits is None and traced.is_compiling():
        return torch.ops.hvdlite.alltoall(tensor, set_id_of(process_set), name)
    like = splits if isinstance(splits, torch.Tensor) else None
    rule = Alltoall(OPS, name, process_set, splits=_splits(splits), splits_like=like)
    output, received = _differentiable(rule, [tensor])
    return output if splits is None else (output, received)


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts reducescatter() and returns a handle."""
    return engine.new_handle(OPS.reducescatter(tensor, name, op, prescale_factor, postscale_factor, process_set))


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Reduces the tensors of all ranks and returns this rank's part of the rows; earlier ranks get the odd ones."""
    if traced.is_compiling():
        how = (op, float(prescale_factor), float(postscale_factor), set_id_of(process_set), name)
        return _compressed(compression, [tensor], name, lambda p: [torch.ops.hvdlite.reducescatter(p[0], *how)])[0]
    rule = Reducescatter(OPS, name, process_set, False, op, prescale_factor, postscale_factor)
    return _compressed(compression, [tensor], name, lambda payloads: _differentiable(rule, payloads))[0]


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts grouped_reducescatter() and returns one handle for all; its result is a tuple."""
    pending = OPS.grouped_reducescatter(tensors, name, op, prescale_factor, postscale_factor, process_set)
    return engine.new_handle(pending)


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """reducescatter() of several tensors that travel together."""
    if traced.is_compiling():
        how = (op, float(prescale_factor), float(postscale_factor), set_id_of(process_set), name)
        send = torch.ops.hvdlite.grouped_reducescatter
        return _compressed(compression, _list(tensors), name, lambda payloads: send(payloads, *how))
    rule = Reducescatter(OPS, name, process_set, True, op, prescale_factor, postscale_factor)
    return _compressed(compression, _list(tensors), name, lambda payloads: _differentiable(rule, payloads))


# ---- Arguments ------------------------------------------------------------------------------------------------------


def _compressed(
    compression: Any,
    tensors: list[torch.Tensor],
    name: str | None,
    send: Callable[[list[torch.Tensor]], Sequence[torch.Tensor]],
) -> list[torch.Tensor]:
    if compression is Compression.none:
        return list(send(tensors))
    settled = Settled(compression)
    if settled.communicate is not None:
        raise ValueError(
            "this compression has a communicate() of its own, which stands for the reduction of gradients: give it to "
            "hvd.DistributedOptimizer or hvd.ddp_comm_hook"
        )
    packed = [settled.compress(tensor, name) for tensor in tensors]
    received = send([payload for payload, _ in packed])
    return [settled.decompress(tensor, context) for tensor, (_, context) in zip(received, packed, strict=True)]


def _needs_gradient(tensor: Any) -> bool:
    # Most calls do not, and then nothing has to be recorded.
    return torch.is_grad_enabled() and isinstance(tensor, torch.Tensor) and tensor.requires_grad


def _list(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"expected a list of tensors, got {type(tensors).__name__}")
    return list(tensors)


def _lengths(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    return tuple(t.shape[0] if isinstance(t, torch.Tensor) and t.dim() else 0 for t in tensors)


def _splits(splits: Any) -> list[int] | None:
    if splits is None:
        return None
    if not isinstance(splits, torch.Tensor):
        splits = torch.tensor(splits, dtype=None if len(splits) else torch.int32)
        if splits.dtype == torch.int64:
            splits = splits.to(torch.int32)
    if splits.dtype != torch.int32 or splits.dim() != 1:
        raise ValueError(
            f"alltoall: splits must be one-dimensional and of dtype int32, not {splits.dim()}-dimensional {splits.dtype}"
        )
    return [int(n) for n in splits]
