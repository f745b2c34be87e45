"""Sparse COO tensors: their indices and values are gathered; adding up what falls together is the
result's coalesce()."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from hvdlite.base.operations import ALLGATHER
from hvdlite.base.ops import Average, Sum
from hvdlite.core.collectives import Collectives
from hvdlite.core.engine import Pending, run_now
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import ProcessSet


def start(
    ops: Collectives, tensor: torch.Tensor, name: str | None, op: int, process_set: ProcessSet,
    patient: bool = False,
) -> Callable[[], torch.Tensor]:  # fmt: skip
    """Starts the reduction; the function returned waits for it. It may be called once."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.sparse_coo:
        kind = tensor.layout if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise ValueError(
            f"sparse_allreduce_async takes a sparse COO tensor, got {kind}: use hvd.allreduce_async"
        )
    return partial(run_now, pending(ops, tensor, name, op, process_set, patient))


def pending(
    ops: Collectives, tensor: torch.Tensor, name: str | None, op: int, process_set: ProcessSet,
    patient: bool = False,
) -> Pending:  # fmt: skip
    """Starts both gathers."""
    if op not in (Average, Sum):
        raise NotImplementedError("sparse tensors are reduced with op=hvd.Average or hvd.Sum only")
    tensor = tensor.detach().coalesce()
    members = process_set.size() or 1
    # Gathering is along the first dimension, and every entry is one row of both.
    of_indices, of_values = (
        ops.start(Call(ALLGATHER, name and f"{name}.{part}", process_set, patient=patient), [rows])
        for part, rows in (
            ("indices", tensor.indices().t().contiguous()),
            ("values", tensor.values()),
        )
    )

    def finish(answers: list[Any]) -> torch.Tensor:
        indices, values = of_indices.finish(answers[:1]), of_values.finish(answers[1:])
        if op == Average:
            values = values / members
        # Checked: a rank whose tensor is larger would have its entries written beyond the end of
        # this one.
        return torch.sparse_coo_tensor(
            indices.t(), values, tensor.shape, check_invariants=True
        ).coalesce()

    return Pending([*of_indices.natives, *of_values.natives], finish)


def dimensions(gradient: torch.Tensor) -> int:
    """How many of its dimensions are sparse; 0 if the tensor is of another layout than start()
    takes."""
    return gradient.sparse_dim() if gradient.layout == torch.sparse_coo else 0


def nothing(like: torch.Tensor, sparse_dimensions: int) -> torch.Tensor:
    """A sparse tensor of the same shape without entries."""
    indices = torch.empty((sparse_dimensions, 0), dtype=torch.int64, device=like.device)
    values = torch.empty((0, *like.shape[sparse_dimensions:]), dtype=like.dtype, device=like.device)
    return torch.sparse_coo_tensor(indices, values, like.shape, check_invariants=False)
