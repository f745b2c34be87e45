"""Where this process stands in the job, as tensors: read when a graph runs, because elastic jobs
change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from hvdlite.adapter import elastic
from hvdlite.core import engine
from hvdlite.core.arrays import ops as on_arrays
from hvdlite.core.process_sets import ProcessSet
from hvdlite.job import basics
from hvdlite.tensorflow import by_numpy, xla
from hvdlite.tensorflow.errors import in_tensorflows_words
from hvdlite.tensorflow.graph import GRAPH

__all__ = [
    "join", "local_rank_op", "local_size_op", "process_set_included_op", "rank_op", "size_op",
]  # fmt: skip


def _number(read: Callable[[], int], name: str | None) -> Any:
    if tf.executing_eagerly():
        return tf.constant(read(), tf.int32)
    if xla.is_compiling():
        if elastic.enabled():
            raise xla.refuse("in an elastic job, whose ranks change, hvd.rank_op() and its like")
        return tf.constant(read(), tf.int32, name=name)
    return tf.identity(by_numpy.number(read), name=name)


def size_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """How many ranks are in the process set."""
    return _number(lambda: len(engine.ranks_of(process_set_id)), name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """1 if this rank is in the process set, else 0."""
    return _number(lambda: int(engine.rank() in engine.ranks_of(process_set_id)), name)


def rank_op(name: str | None = None) -> Any:
    """This process's number among all of the job."""
    return _number(basics.rank, name)


def local_rank_op(name: str | None = None) -> Any:
    """This process's number among those on its host."""
    return _number(basics.local_rank, name)


def local_size_op(name: str | None = None) -> Any:
    """How many processes of the job run on this host."""
    return _number(basics.local_size, name)


def join() -> Any:
    """Says that this rank has no more data. Until all have joined it takes part in reductions with
    zeros. Returns the last rank to join."""
    if not tf.executing_eagerly():
        return GRAPH.join()
    with in_tensorflows_words():
        return tf.constant(on_arrays.join(), tf.int32)


def members(process_set: ProcessSet, dtype: Any) -> Any:
    """How many there are, to divide by."""
    if elastic.enabled() and not tf.executing_eagerly():
        return tf.cast(size_op(process_set.process_set_id or 0), dtype)
    return tf.cast(process_set.size() or 1, dtype)
