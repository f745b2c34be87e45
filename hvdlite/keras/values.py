"""Collectives on values: numbers, arrays, tensors and variables. Not for use inside a compiled function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hvdlite
from hvdlite.adapter.compression import Settled
from hvdlite.base.ops import Average, Sum
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.exceptions import MismatchError
from hvdlite.job.basics import rank
from hvdlite.keras.compression import Compression
from hvdlite.keras.flavour import LEGACY
from hvdlite.keras.host import to_numpy, to_tensor

__all__ = [
    "allgather", "allreduce", "broadcast", "broadcast_global_variables", "broadcast_variables", "reducescatter",
]  # fmt: skip


def allreduce(value: Any, name: str | None = None, average: bool = True, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, op: int | None = None, compression: Any = Compression.none) -> Any:  # fmt: skip
    """Combines the values of all ranks element by element; a tensor of the backend.

    `op` says how; without it, the average, or the sum with average=False.
    """
    op = op if op is not None else Average if average else Sum
    compression = Settled(compression)
    tensor = to_tensor(value)
    payload, context = compression.compress(tensor, name)
    sum_of_all = hvdlite.allreduce(
        to_numpy(payload), name=name, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor
    )
    return compression.decompress(to_tensor(sum_of_all, payload.dtype), context)


def allgather(value: Any, name: str | None = None) -> Any:
    """The values of all ranks, one behind another along the first dimension, which may differ from rank to rank."""
    tensor = to_tensor(value)
    return to_tensor(hvdlite.allgather(to_numpy(tensor), name), tensor.dtype)


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """The value of `root_rank`."""
    tensor = to_tensor(value)
    return to_tensor(hvdlite.broadcast(to_numpy(tensor), root_rank, name), tensor.dtype)


def reducescatter(value: Any, name: str | None = None, op: int = Average) -> Any:
    """Reduces the values of all ranks and returns this rank's part of the rows; earlier ranks get the odd ones."""
    tensor = to_tensor(value)
    return to_tensor(hvdlite.reducescatter(to_numpy(tensor), name, op), tensor.dtype)


def broadcast_variables(variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set) -> None:
    """Gives all ranks the contents that the variables have on `root_rank`: model.weights, optimizer.variables."""
    arrays = [to_numpy(variable) for variable in variables]
    _check_alike(arrays, variables, process_set)
    handles = [
        hvdlite.broadcast_async(array, root_rank, f"broadcast_variables.{i}", process_set)
        for i, array in enumerate(arrays)
    ]
    for variable, handle in zip(variables, handles, strict=True):
        received = hvdlite.synchronize(handle)
        if rank() != root_rank:
            variable.assign(received)


def _check_alike(arrays: Sequence[Any], variables: Sequence[Any], process_set: ProcessSet) -> None:
    mine = [(array.shape, str(array.dtype)) for array in arrays]
    everyones = hvdlite.allgather_object(mine, "broadcast_variables", process_set)
    for other, theirs in zip(process_set.ranks or [], everyones, strict=True):
        if theirs == mine:
            continue
        different = [i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b]
        where = f"{len(mine)} variables here, {len(theirs)} there"
        if different:
            i = different[0]
            name = getattr(variables[i], "path", None) or getattr(variables[i], "name", str(i))
            where = f"'{name}' is {mine[i]} here, {theirs[i]} there"
        raise MismatchError(
            f"broadcast_variables: rank {rank()} and rank {other} have different variables: {where}. "
            "Build the same model and optimizer on all ranks."
        )


def broadcast_global_variables(root_rank: int) -> None:
    """For programs of TensorFlow 1; Keras has no list of all variables."""
    if LEGACY:
        from hvdlite.keras.backends import tensorflow

        return tensorflow.broadcast_global_variables(root_rank)  # type: ignore[no-any-return]
    raise RuntimeError(
        "hvd.broadcast_global_variables() needs a graph of TensorFlow 1, and this program runs eagerly: use "
        "hvd.callbacks.BroadcastGlobalVariablesCallback in fit(), or "
        "hvd.broadcast_variables(model.weights + optimizer.variables, root_rank=0)"
    )
