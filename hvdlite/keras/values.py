"""Collectives on values: numbers, arrays, tensors and variables. Not for use inside a compiled
function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hvdlite
from hvdlite.adapter.agreement import divergence
from hvdlite.adapter.compression import compressed
from hvdlite.base.ops import Average, Sum
from hvdlite.core.arrays.ops import OPS, barrier
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.job.basics import rank
from hvdlite.keras.compression import Compression
from hvdlite.keras.flavour import LEGACY
from hvdlite.keras.host import to_numpy, to_tensor

__all__ = [
    "allgather", "allreduce", "barrier", "broadcast", "broadcast_global_variables",
    "broadcast_variables", "reducescatter",
]  # fmt: skip


def allreduce(value: Any, name: str | None = None, average: bool = True,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0, op: int | None = None,
              compression: Any = Compression.none) -> Any:  # fmt: skip
    """Combines the values of all ranks element by element; a tensor of the backend.

    `op` says how; without it, the average, or the sum with average=False.
    """
    op = op if op is not None else Average if average else Sum
    how = (None, name, op, prescale_factor, postscale_factor)

    def send(payloads: Sequence[Any]) -> list[Any]:
        return [to_tensor(hvdlite.allreduce(to_numpy(p), *how), p.dtype) for p in payloads]

    return compressed(compression, [to_tensor(value)], name, send)[0]


def allgather(value: Any, name: str | None = None) -> Any:
    """The values of all ranks, one behind another along the first dimension, which may differ from
    rank to rank."""
    tensor = to_tensor(value)
    return to_tensor(hvdlite.allgather(to_numpy(tensor), name), tensor.dtype)


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """The value of `root_rank`."""
    tensor = to_tensor(value)
    return to_tensor(hvdlite.broadcast(to_numpy(tensor), root_rank, name), tensor.dtype)


def reducescatter(value: Any, name: str | None = None, op: int = Average) -> Any:
    """Reduces the values of all ranks and returns this rank's part of the rows; earlier ranks get
    the odd ones."""
    tensor = to_tensor(value)
    return to_tensor(hvdlite.reducescatter(to_numpy(tensor), name, op), tensor.dtype)


def broadcast_variables(
    variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Gives all ranks the contents that the variables have on `root_rank`: model.weights,
    optimizer.variables."""
    arrays = [to_numpy(variable) for variable in variables]
    called = [
        str(getattr(v, "path", None) or getattr(v, "name", i)) for i, v in enumerate(variables)
    ]
    divergence.check_alike(arrays, called, process_set)
    names = [f"broadcast_variables.{i}" for i in range(len(arrays))]
    received = OPS.broadcast_all(arrays, names, root_rank, process_set)
    if rank() != root_rank:
        for variable, array in zip(variables, received, strict=True):
            variable.assign(array)


def broadcast_global_variables(root_rank: int) -> None:
    """For programs of TensorFlow 1; Keras has no list of all variables."""
    if LEGACY:
        from hvdlite.keras.backends import tensorflow

        return tensorflow.broadcast_global_variables(root_rank)  # type: ignore[no-any-return]
    raise RuntimeError(
        "hvd.broadcast_global_variables() needs a graph of TensorFlow 1, and this program runs "
        "eagerly: use hvd.callbacks.BroadcastGlobalVariablesCallback in fit(), or "
        "hvd.broadcast_variables(model.weights + optimizer.variables, root_rank=0)"
    )
