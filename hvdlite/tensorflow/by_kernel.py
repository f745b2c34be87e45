"""Collectives inside a tf.function by way of hvdlite's own kernels, which block no thread: those of
libhvdlite_tensorflow.so (csrc/ingraph), unless it cannot be loaded."""

from __future__ import annotations

import ctypes
import os
import struct
import warnings
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvdlite.base import knobs
from hvdlite.base.operations import EXCHANGED
from hvdlite.core import engine
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import set_id_of
from hvdlite.tensorflow.framework import with_shapes

_NAME = "libhvdlite_tensorflow.so"


def _load() -> tuple[Any, str]:
    """What TensorFlow makes of the library, or None and a sentence."""
    if not knobs.resolve(os.environ)["tensorflow_kernels"]:
        return None, "HVDLITE_TENSORFLOW_KERNELS turns them off"
    path = engine.library(_NAME)
    try:
        # First TensorFlow: it looks which operations appear while it loads the library.
        operations = tf.load_op_library(path)
        ask = ctypes.CDLL(path).hvdlite_tensorflow_problem
    except (OSError, tf.errors.OpError) as error:
        return None, f"{_NAME} cannot be loaded: {error}"
    ask.restype = ctypes.c_char_p
    problem = ask().decode()
    return (None, problem) if problem else (operations, "")


OPERATIONS, WHY_NOT = _load()
if OPERATIONS is None and "turns them off" not in WHY_NOT:
    warnings.warn(
        f"hvdlite's kernels for TensorFlow {tf.__version__} cannot be used: {WHY_NOT}. Operations "
        "inside a tf.function go by way of Python instead, which is slower.",
        stacklevel=2,
    )


def bits(factor: float) -> int:
    """A double as the kernels' attributes have it, which as floats would have 32 bits."""
    return int(struct.unpack("<q", struct.pack("<d", factor))[0])


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
    attributes: dict[str, Any] = {"tensor_name": name, "name": _node(name)}
    attributes["process_set"] = set_id_of(call.process_set)
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
