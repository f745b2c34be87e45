"""Collectives inside a tf.function by way of hvdlite's own kernels, which block nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.process_sets import ProcessSet, set_id_of
from hvdlite.tensorflow.framework import rows_like
from hvdlite.tensorflow.native import OPERATIONS, bits


def _scaled(op: int, prescale: float, postscale: float, s: ProcessSet) -> dict[str, Any]:
    return {
        "op": op,
        "prescale_bits": bits(prescale),
        "postscale_bits": bits(postscale),
        "process_set": set_id_of(s),
    }


def gradients(tensors: Sequence[Any], names: Sequence[str], *how: Any) -> list[Any]:
    """Each under its own name; stateless."""
    attributes = _scaled(*how)
    start = OPERATIONS.hvdlite_allreduce_gradient
    return [start(t, tensor_name=name, name=_node(name), **attributes) for t, name in zip(tensors, names, strict=True)]


def allreduce(tensors: Sequence[Any], names: Sequence[str], *how: Any) -> list[Any]:
    attributes = _scaled(*how)
    start = OPERATIONS.hvdlite_allreduce
    return [
        start([t], tensor_name=name, name=_node(name), **attributes)[0] for t, name in zip(tensors, names, strict=True)
    ]


def grouped_allreduce(tensors: Sequence[Any], name: str, *how: Any) -> list[Any]:
    start = OPERATIONS.hvdlite_allreduce
    return list(start(list(tensors), tensor_name=name, grouped=1, name=_node(name), **_scaled(*how)))


def broadcast(tensor: Any, root: int, name: str, s: ProcessSet) -> Any:
    start = OPERATIONS.hvdlite_broadcast
    return start([tensor], tensor_name=name, root=root, process_set=set_id_of(s), name=_node(name))[0]


def grouped_allgather(tensors: Sequence[Any], name: str, s: ProcessSet) -> list[Any]:
    start, grouped = OPERATIONS.hvdlite_allgather, int(len(tensors) > 1)
    results = start(list(tensors), tensor_name=name, grouped=grouped, process_set=set_id_of(s), name=_node(name))
    return rows_like(results, tensors)


def grouped_reducescatter(tensors: Sequence[Any], name: str, *how: Any) -> list[Any]:
    start, grouped = OPERATIONS.hvdlite_reducescatter, int(len(tensors) > 1)
    results = start(list(tensors), tensor_name=name, grouped=grouped, name=_node(name), **_scaled(*how))
    return rows_like(results, tensors)


def alltoall(tensor: Any, splits: Any, name: str, s: ProcessSet) -> tuple[Any, Any]:
    output, received = OPERATIONS.hvdlite_alltoall(
        tensor, splits, tensor_name=name, process_set=set_id_of(s), name=_node(name)
    )
    received.set_shape([None])
    return rows_like([output], [tensor])[0], received


def join(name: str) -> Any:
    return OPERATIONS.hvdlite_join(tensor_name=name, name=_node(name))


def _node(name: str) -> str:
    """The last part of an operation's name as the name of its node: graphs are strict about those."""
    kept = "".join(c if c.isalnum() or c in "_.-" else "_" for c in name.rpartition("/")[2] or "unnamed")
    return f"Hvdlite_{kept}"
