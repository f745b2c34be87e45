"""Tensors and options as hvdlite takes them: torch's collectives also move types that hvdlite
cannot reduce."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import distributed as dist

from hvdlite.base.ops import Average, Max, Min, Product, Sum
from hvdlite.torch.framework import SUPPORTED

#: Copies results to where the caller wants them.
Deliver = Callable[[tuple[Any, ...]], None]
#: Combines two tensors.
Folding = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory without autograd. As torch's other backends, hvdlite does not count a
    collective as a change, so autograd still uses what it has saved."""
    return tensor.data


def moved(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, of a type that hvdlite moves: complex numbers as pairs, others as bytes."""
    same = tensor.data
    if same.dtype in SUPPORTED:
        return same
    if same.is_complex():
        return moved(torch.view_as_real(same))
    if same.layout is torch.strided and same.element_size() == 1 and not same.is_quantized:
        return same.view(torch.uint8)
    raise TypeError(f"the backend hvdlite cannot move a tensor of type {tensor.type()}")


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in a row, of a type that hvdlite moves; a copy if they are not contiguous."""
    return moved(tensor).reshape(-1)


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The elements of all tensors in a row."""
    rows = [flat(tensor) for tensor in tensors]
    return rows[0] if len(rows) == 1 else torch.cat(rows)


def sizes(tensors: Sequence[torch.Tensor]) -> list[int]:
    """How many elements each tensor has in a row."""
    return [moved(tensor).numel() for tensor in tensors]


def check_alike(outputs: Sequence[torch.Tensor], source: torch.Tensor) -> None:
    """Raises TypeError unless the outputs have the type of the input."""
    other = next((each.dtype for each in outputs if each.dtype != source.dtype), None)
    if other is not None:
        raise TypeError(f"an output is of type {other}, but the input is of type {source.dtype}")


def room_in(outputs: Sequence[torch.Tensor], row: torch.Tensor, count: int) -> torch.Tensor | None:
    """The memory of the outputs as a row of `count` elements, if they lie one behind the other and
    a result may be written there while `row` is read; None: the result has to be copied."""
    targets = [moved(each) for each in outputs]
    if not targets or not row.is_cpu or sum(each.numel() for each in targets) != count:
        return None
    storages = {each.untyped_storage().data_ptr() for each in targets}
    begins = accumulate((each.nbytes for each in targets), initial=targets[0].data_ptr())
    in_a_row = len(storages) == 1 and all(
        each.is_cpu and each.is_contiguous() and each.data_ptr() == begin
        for each, begin in zip(targets, begins, strict=False)
    )
    # FSDP gathers into the tensor of which its part is a view.
    apart = row.untyped_storage().data_ptr() not in storages
    return targets[0].as_strided((count,), (1,)) if in_a_row and apart else None


def spread(row: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
    """Copies the elements of a row into the outputs, one after the other."""
    lengths = sizes(outputs)
    if sum(lengths) != row.numel():
        raise ValueError(
            f"the outputs have room for {sum(lengths)} elements, but {row.numel()} have arrived"
        )
    for output, part in zip(outputs, torch.split(row, lengths), strict=True):
        target = moved(output)
        target.copy_(part.view(target.shape))


def spreading(*outputs: Sequence[torch.Tensor]) -> Deliver:
    """Spreads each result over its outputs. An alltoall has another result behind its first."""

    def deliver(results: tuple[Any, ...]) -> None:
        for row, each in zip(results, outputs, strict=False):
            spread(row, each)

    return deliver


def replacing(tensor: torch.Tensor) -> Deliver:
    """Makes the result the contents of a sparse tensor."""

    def deliver(results: tuple[Any, ...]) -> None:
        with torch.no_grad():
            tensor.copy_(results[0])

    return deliver


# ---- torch's options of a collective

_ReduceOp: Any = dist.ReduceOp  # type: ignore[attr-defined]
_KNOWN = (
    (_ReduceOp.SUM, Sum), (_ReduceOp.AVG, Average), (_ReduceOp.MAX, Max), (_ReduceOp.MIN, Min),
    (_ReduceOp.PRODUCT, Product),
)  # fmt: skip

_BITWISE = (
    (_ReduceOp.BAND, torch.bitwise_and), (_ReduceOp.BOR, torch.bitwise_or),
    (_ReduceOp.BXOR, torch.bitwise_xor),
)  # fmt: skip


def reduction_of(options: Any, tensors: Sequence[torch.Tensor] | None = None) -> Any:
    """hvdlite's number of a reduction. `options`: torch's options, a ReduceOp, or None for a sum.
    With `tensors`, of a reduction that hvdlite's core does not have: the Folding.

    Raises NotImplementedError for one that hvdlite does not have.
    """
    if options is None:
        return Sum
    asked = getattr(options, "reduceOp", options)
    found: Any = next((ours for theirs, ours in _KNOWN if asked == theirs), None)
    if found is None and tensors is not None:
        found = next((ours for theirs, ours in _BITWISE if asked == theirs), None)
        if found and any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors):
            raise TypeError(f"the reduction {_name(asked)} takes integers and bool")
    if found is not None:
        return found
    raise NotImplementedError(
        f"the backend hvdlite does not have the reduction {_name(asked)} here, only SUM, AVG, MIN, "
        "MAX and PRODUCT (in all_reduce and reduce also BAND, BOR, BXOR). A group of gloo may have "
        'it: torch.distributed.new_group(backend="gloo").'
    )


def deliver_folded(
    fold: Folding, size: int, tensors: Sequence[torch.Tensor], results: tuple[Any, ...]
) -> None:
    """Combines what has been gathered of each tensor, in the order of the ranks."""
    for row, tensor in zip(results, tensors, strict=True):
        plain(tensor).copy_(functools.reduce(fold, row.chunk(size)).view(tensor.shape))


def blocks(options: Any) -> bool:
    """Whether the caller waits for the result at once. torch before 2.6 does not say it."""
    return options is not None and not getattr(options, "asyncOp", True)


def _name(asked: Any) -> str:
    names = ("BAND", "BOR", "BXOR", "PREMUL_SUM")
    return next((name for name in names if asked == getattr(_ReduceOp, name, None)), str(asked))
