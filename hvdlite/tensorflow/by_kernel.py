"""Collectives inside a tf.function by way of hvdlite's own kernels, which block no thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvdlite.base.operations import EXCHANGED
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import set_id_of
from hvdlite.tensorflow.framework import with_shapes
from hvdlite.tensorflow.native import OPERATIONS, bits


def emit(call: Call, tensors: Sequence[Any]) -> list[Any]:
    start = getattr(OPERATIONS, f"hvdlite_{call.operation.name}")
    given: list[Any] = [tensors]
    if call.operation.result is EXCHANGED:
        given = [*tensors, tf.constant([], tf.int32) if call.splits is None else call.splits]
    results = start(*given, **_attributes(call, str(call.name)))
    return with_shapes(call, results, tensors)


def gradients(call: Call, tensors: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Each under its own name; stateless."""
    start = OPERATIONS.hvdlite_allreduce_gradient
    return [start(t, **_attributes(call, name)) for t, name in zip(tensors, names, strict=True)]


def join(name: str) -> Any:
    return OPERATIONS.hvdlite_join(tensor_name=name, name=_node(name))


def _attributes(call: Call, name: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "tensor_name": name,
        "name": _node(name),
        "process_set": set_id_of(call.process_set),
    }
    if call.operation.reduces:
        factors = {"prescale_bits": bits(call.prescale), "postscale_bits": bits(call.postscale)}
        attributes.update(factors, op=call.op)
    if call.operation.rooted:
        attributes["root"] = call.root
    if call.grouped:
        attributes["grouped"] = 1
    return attributes


def _node(name: str) -> str:
    """The last part of an operation's name as the name of its node: graphs are strict about
    those."""
    kept = "".join(
        c if c.isalnum() or c in "_.-" else "_" for c in name.rpartition("/")[2] or "unnamed"
    )
    return f"Hvdlite_{kept}"
