"""Collectives inside a function that XLA compiles (jit_compile=True).

All shapes are known when the function is traced, so all ranks have equally many rows there. Each
call blocks a thread of XLA's until all ranks have come; calls run one at a time, in the program's
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvdlite.base.operations import EXCHANGED
from hvdlite.core.operations import Call, compiled
from hvdlite.tensorflow import xla


def emit(call: Call, tensors: Sequence[Any]) -> list[Any]:
    given = [xla.static_shape(tensor, str(call.name)) for tensor in tensors]
    known = compiled(call, given, "in a function that XLA compiles (jit_compile=True)")
    if call.operation.result is not EXCHANGED:
        return xla.emit(call, tensors, known.shapes)
    if call.splits is not None:
        wanted = tf.get_static_value(call.splits)
        if wanted is None or wanted.tolist() not in ([], known.received):
            raise xla.refuse(
                "alltoall with splits",
                "only the other ranks know the shape of its result. Leave splits= out, or call it "
                "outside",
            )
    return [*xla.emit(call, tensors, known.shapes), tf.constant(known.received, tf.int32)]


def gradients(call: Call, tensors: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """All in one call, under the scope that their names have in common."""
    return emit(call._replace(name=names[0].rpartition("/")[0] or names[0], grouped=True), tensors)


def join(name: str) -> Any:
    raise xla.refuse("hvd.join()")
