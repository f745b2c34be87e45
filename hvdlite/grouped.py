"""Grouped collectives: several tensors that become ready, travel and fail together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hvdlite import _core
from hvdlite.arrays import Tensor, contiguous, empty_like, own_kind
from hvdlite.handles import Pending, new_handle, run_now
from hvdlite.ops import Average, Kind, Sum, reduction_of
from hvdlite.process_sets import ProcessSet, global_process_set, set_id_of

__all__ = [
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
]


def _start_group(
    kind: int,
    tensors: Sequence[Tensor],
    in_place: bool,
    name: str | None,
    op: int,
    pre: float,
    post: float,
    process_set: ProcessSet,
) -> Pending:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"expected a list of tensors, got {type(tensors).__name__}")
    sources = [contiguous(t) for t in tensors]
    outputs: list[Any] = []
    if in_place:
        if any(isinstance(t, np.ndarray) and not t.flags.writeable for t in tensors):
            raise ValueError("a tensor of the group is read-only, so the result cannot be written into it; pass a copy")
        outputs = sources
    elif kind == Kind.ALLREDUCE:
        outputs = [empty_like(s) for s in sources]
    natives = _core.submit_group(kind, op, set_id_of(process_set), name, sources, outputs, pre, post)

    def finish(results: list[Any]) -> list[Any]:
        if in_place:
            for tensor, work in zip(tensors, sources, strict=True):
                if work is not tensor:
                    tensor[...] = work
            return list(tensors)
        given = outputs or [None] * len(sources)
        return [
            out if out is not None else own_kind(source, result[0])
            for source, out, result in zip(sources, given, results, strict=True)
        ]

    return Pending(natives, finish)


def _run_group(pending: Pending) -> list[Any]:
    results: list[Any] = run_now(pending)
    return results


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
    reduction = reduction_of(average, op)
    return new_handle(
        _start_group(Kind.ALLREDUCE, tensors, False, name, reduction, prescale_factor, postscale_factor, process_set)
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
    reduction = reduction_of(average, op)
    return _run_group(
        _start_group(Kind.ALLREDUCE, tensors, False, name, reduction, prescale_factor, postscale_factor, process_set)
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
    reduction = reduction_of(average, op)
    return new_handle(
        _start_group(Kind.ALLREDUCE, tensors, True, name, reduction, prescale_factor, postscale_factor, process_set)
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
    reduction = reduction_of(average, op)
    return _run_group(
        _start_group(Kind.ALLREDUCE, tensors, True, name, reduction, prescale_factor, postscale_factor, process_set)
    )


def grouped_allgather_async(
    tensors: Sequence[Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts grouped_allgather() and returns a handle."""
    return new_handle(_start_group(Kind.ALLGATHER, tensors, False, name, Sum, 1.0, 1.0, process_set))


def grouped_allgather(
    tensors: Sequence[Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """allgather() of several tensors that travel together. Returns a list."""
    return _run_group(_start_group(Kind.ALLGATHER, tensors, False, name, Sum, 1.0, 1.0, process_set))


def grouped_reducescatter_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts grouped_reducescatter() and returns a handle."""
    return new_handle(
        _start_group(Kind.REDUCESCATTER, tensors, False, name, op, prescale_factor, postscale_factor, process_set)
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
    return _run_group(
        _start_group(Kind.REDUCESCATTER, tensors, False, name, op, prescale_factor, postscale_factor, process_set)
    )
