"""Collectives on TensorFlow's tensors, with Horovod's signatures; all differentiable, eagerly and
inside a tf.function.

Names, factors, reductions and process sets are documented in hvdlite.core.arrays.ops; what an
operation does to a gradient, in hvdlite.core.gradients. `device_dense` and `device_sparse` are
accepted for Horovod's sake.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import tensorflow as tf

from hvdlite.adapter.compression import Method, compressed, compressed_allreduce
from hvdlite.base.operations import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCE, REDUCESCATTER
from hvdlite.base.ops import Adasum, Average, Max, Min, Product, Sum, reduction_of
from hvdlite.core.arrays import ops as on_arrays
from hvdlite.core.collectives import Collectives
from hvdlite.core.gradients import Rule
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.tensorflow import sparse
from hvdlite.tensorflow.compression import Compression
from hvdlite.tensorflow.framework import FRAMEWORK
from hvdlite.tensorflow.graph import GRAPH

__all__ = [
    "Adasum", "Average", "Max", "Min", "Product", "Sum",
    "allgather", "allreduce", "alltoall", "barrier", "broadcast", "grouped_allgather",
    "grouped_allreduce", "grouped_reducescatter", "reduce", "reducescatter",
]  # fmt: skip

_Function = TypeVar("_Function", bound=Callable[..., Any])

EAGER = Collectives(FRAMEWORK)

# tf.function rewrites the Python that it calls, which is not meant here.
do_not_convert: Callable[[_Function], _Function] = tf.autograph.experimental.do_not_convert


@do_not_convert
def allreduce(tensor: Any, average: bool | None = None, device_dense: str = "",
              device_sparse: str = "", compression: Any = Compression.none, op: int | None = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0, name: str | None = None,
              process_set: ProcessSet = global_process_set,
              ignore_name_scope: bool = False) -> Any:  # fmt: skip
    """Combines the tensors of all ranks element by element; the same bits on every rank.
    tf.IndexedSlices are gathered."""
    op = reduction_of(average, op)
    if isinstance(tensor, tf.IndexedSlices):
        sparse.check(op, prescale_factor, postscale_factor)
        gather = lambda rows, label: allgather(rows, label, ignore_name_scope, process_set)  # noqa: E731
        return sparse.allreduce(tensor, gather, name, op, process_set)
    call = Call(ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor)
    return _run(call, [tensor], ignore_name_scope, compression)[0]


@do_not_convert
def _allreduce(tensor: Any, name: str | None = None, op: int = Sum, prescale_factor: float = 1.0,
               postscale_factor: float = 1.0, ignore_name_scope: bool = False,
               process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """allreduce() without its conveniences; tests of Horovod's call it."""
    return allreduce(tensor, None, "", "", Compression.none, op, prescale_factor, postscale_factor,
                     name, process_set, ignore_name_scope)  # fmt: skip


@do_not_convert
def _grouped_allreduce(tensors: Sequence[Any], name: str | None = None, op: int = Sum,
                       prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       ignore_name_scope: bool = False,
                       process_set: ProcessSet = global_process_set) -> list[Any]:  # fmt: skip
    """grouped_allreduce() without its conveniences; libraries of Horovod's users call it."""
    return grouped_allreduce(tensors, None, "", "", Compression.none, op, prescale_factor,
                             postscale_factor, process_set, ignore_name_scope, name)  # fmt: skip


@do_not_convert
def grouped_allreduce(tensors: Sequence[Any], average: bool | None = None, device_dense: str = "",
                      device_sparse: str = "", compression: Any = Compression.none,
                      op: int | None = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
                      ignore_name_scope: bool = False,
                      name: str | None = None) -> list[Any]:  # fmt: skip
    """allreduce() of several tensors that become ready, travel and fail together."""
    op = reduction_of(average, op)
    results = list(tensors)
    dense = [i for i, t in enumerate(tensors) if not isinstance(t, tf.IndexedSlices)]
    for i in sorted(set(range(len(results))) - set(dense)):
        results[i] = allreduce(results[i], None, "", "", compression, op, prescale_factor,
                               postscale_factor, name and f"{name}.{i}", process_set,
                               ignore_name_scope)  # fmt: skip
    if dense:
        how = (ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor)
        given = [tensors[i] for i in dense]
        reduced = _run(Call(*how, grouped=True), given, ignore_name_scope, compression)
        for i, result in zip(dense, reduced, strict=True):
            results[i] = result
    return results


@do_not_convert
def allgather(tensor: Any, name: str | None = None, ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """Concatenates the tensors of all ranks along their first dimension, which may differ from rank
    to rank."""
    return _run(Call(ALLGATHER, name, process_set), [tensor], ignore_name_scope)[0]


@do_not_convert
def grouped_allgather(tensors: Sequence[Any], name: str | None = None,
                      ignore_name_scope: bool = False,
                      process_set: ProcessSet = global_process_set) -> list[Any]:  # fmt: skip
    """allgather() of several tensors that travel together."""
    return _run(Call(ALLGATHER, name, process_set, grouped=True), tensors, ignore_name_scope)


@do_not_convert
def broadcast(tensor: Any, root_rank: int, name: str | None = None, ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """Returns the tensor of `root_rank` (a global rank, also in a process set). Shapes must be
    equal on all ranks."""
    return _run(Call(BROADCAST, name, process_set, root=root_rank), [tensor], ignore_name_scope)[0]


@do_not_convert
def alltoall(tensor: Any, splits: Any = None, name: str | None = None,
             ignore_name_scope: bool = False,
             process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """Sends the i-th part of the first dimension to rank i; returns the parts received, in the
    order of the ranks.

    `splits` (int32, or a list) says how many rows each rank gets; the result is then (output,
    received_splits).
    """
    call = Call(ALLTOALL, name, process_set, splits=_splits(splits))
    output, received = _run(call, [tensor], ignore_name_scope)
    return output if splits is None else (output, received)


@do_not_convert
def reducescatter(tensor: Any, device_dense: str = "", compression: Any = Compression.none,
                  op: int = Average, name: str | None = None,
                  process_set: ProcessSet = global_process_set, ignore_name_scope: bool = False,
                  prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> Any:  # fmt: skip
    """Reduces the tensors of all ranks and returns this rank's part of the rows.

    If the rows do not divide evenly, lower ranks get one more.
    """
    call = Call(REDUCESCATTER, name, process_set, op, prescale_factor, postscale_factor)
    return _run(call, [tensor], ignore_name_scope, compression)[0]


@do_not_convert
def reduce(tensor: Any, root_rank: int, compression: Any = Compression.none, op: int = Average,
           name: str | None = None, process_set: ProcessSet = global_process_set,
           ignore_name_scope: bool = False, prescale_factor: float = 1.0,
           postscale_factor: float = 1.0) -> Any:  # fmt: skip
    """Combines the tensors of all ranks on `root_rank`, a global rank; the other ranks get their
    own tensor back.

    Moves half of the bytes that allreduce() moves between ranks.
    """
    call = Call(REDUCE, name, process_set, op, prescale_factor, postscale_factor, root_rank)
    return _run(call, [tensor], ignore_name_scope, compression)[0]


@do_not_convert
def grouped_reducescatter(tensors: Sequence[Any], device_dense: str = "",
                          compression: Any = Compression.none, op: int = Average,
                          process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> list[Any]:  # fmt: skip
    """reducescatter() of several tensors that travel together."""
    how = (REDUCESCATTER, None, process_set, op, prescale_factor, postscale_factor)
    return _run(Call(*how, grouped=True), tensors, False, compression)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the set have called it. Not inside a tf.function, whose collectives
    come in their order anyway."""
    if not tf.executing_eagerly():
        raise ValueError(
            "hvd.barrier() would run while the function is traced, not when it runs: call it "
            "outside tf.function"
        )
    on_arrays.barrier(process_set)


# ---- How they run


def _run(
    call: Call, tensors: Sequence[Any], ignore_name_scope: bool, compression: Any = Compression.none
) -> list[Any]:
    if not tensors:  # of a group
        return []
    rule = Rule(EAGER if tf.executing_eagerly() else GRAPH, call)
    with name_scope(ignore_name_scope):
        given = [tf.convert_to_tensor(tensor) for tensor in tensors]
        if isinstance(compression, Method):
            return _by_method(compression, call, given)
        return compressed(compression, given, call.name, partial(FRAMEWORK.differentiable, rule))


def _by_method(method: Method, call: Call, tensors: Sequence[Any]) -> list[Any]:
    if not tf.executing_eagerly():
        raise ValueError(
            f"{method} has a memory, which belongs to the gradients of a tape or an optimizer in a "
            "graph: pass it to hvd.DistributedGradientTape or hvd.DistributedOptimizer"
        )
    return compressed_allreduce(method, EAGER, call, tensors)


def name_scope(ignored: bool) -> Any:
    """In a graph the name scope is part of an operation's name, unless it is ignored."""
    if ignored and not tf.executing_eagerly():
        return tf.compat.v1.get_default_graph().name_scope(None)
    return contextlib.nullcontext()


def _splits(splits: Any) -> Any:
    if splits is None:
        return None
    if not tf.executing_eagerly():
        return tf.convert_to_tensor(splits, tf.int32)
    splits = tf.convert_to_tensor(splits) if tf.is_tensor(splits) else tf.constant(splits, tf.int32)
    if splits.dtype != tf.int32 or splits.shape.rank != 1:
        raise ValueError(
            f"alltoall: splits must be one-dimensional and int32, not {splits.shape} "
            f"{splits.dtype.name}"
        )
    return [int(n) for n in splits]
