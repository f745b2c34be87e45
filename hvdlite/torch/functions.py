"""Making ranks equal at the start: parameters, optimizer state, and any object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from hvdlite.core.arrays.objects import allgather_object as _allgather_object
from hvdlite.core.arrays.objects import broadcast_object as _broadcast_object
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.torch.distributed_optimizer import broadcast_optimizer_state
from hvdlite.torch.ops import OPS

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state",
           "broadcast_parameters"]  # fmt: skip


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Gives all ranks the tensors of `root_rank`, in place: a model.state_dict(), or a list of
    (name, tensor) or tensors.

    Values that are no tensors (None, a module's extra state) are left alone.
    """
    if isinstance(params, Mapping):
        named = sorted(params.items())
    elif isinstance(params, list):
        named = [p if isinstance(p, tuple) else (None, p) for p in params]
    else:
        raise ValueError(
            f"hvd.broadcast_parameters() cannot take a {type(params).__name__}: pass "
            "model.state_dict(), or list(model.named_parameters())"
        )
    named = [(name, p) for name, p in named if isinstance(p, torch.Tensor)]
    OPS.broadcast_all([p for _, p in named], [name for name, _ in named], root_rank, in_place=True)


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None,
                     process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """`root_rank`'s object on every rank, pickled on its way. The root gets its own back; elsewhere
    `obj` is ignored."""
    return _broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """The objects of all ranks, in their order."""
    return _allgather_object(obj, name)
