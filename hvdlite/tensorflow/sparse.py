"""tf.IndexedSlices: values and indices are gathered; what falls together is added up when they are
applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from hvdlite.base.ops import Average, Sum
from hvdlite.core.process_sets import ProcessSet
from hvdlite.tensorflow.place import members

Gather = Callable[[Any, "str | None"], Any]  # (tensor, name) -> all ranks' rows


def check(op: int, prescale: float, postscale: float) -> None:
    if op not in (Average, Sum):
        raise NotImplementedError(
            "tf.IndexedSlices are reduced with op=hvd.Average or hvd.Sum only; use "
            "sparse_as_dense=True for other ops"
        )
    if prescale != 1.0 or postscale != 1.0:
        raise NotImplementedError(
            "tf.IndexedSlices cannot be scaled on their way (prescale, postscale, "
            "gradient_predivide_factor); use sparse_as_dense=True"
        )


def allreduce(
    slices: Any, gather: Gather, name: str | None, op: int, process_set: ProcessSet
) -> Any:
    """The slices of all ranks, one after another."""
    values = gather(slices.values, name and f"{name}.values")
    indices = gather(slices.indices, name and f"{name}.indices")
    if op == Average:
        values = values / members(process_set, values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)
