"""Collectives as nodes of a graph: the same operations as hvdlite.adapter.collectives, for code inside a tf.function.

A node's name is its operation's name, so every rank must build the same graph; how often it has been traced does not
matter. Whoever gives no name gets one that the graph has counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvdlite.adapter import engine
from hvdlite.process_sets import ProcessSet
from hvdlite.tensorflow import by_kernel, by_numpy, by_xla, native, xla
from hvdlite.tensorflow.framework import FRAMEWORK


class GraphCollectives:
    """See hvdlite.adapter.collectives.Collectives. Nothing here is under way: `now` is taken for granted."""

    framework = FRAMEWORK

    def allreduce(
        self, tensor: Any, name: str | None, op: int, prescale: float, postscale: float, process_set: ProcessSet,
        *, in_place: bool = False, now: bool = True,
    ) -> Any:  # fmt: skip
        _check([tensor], process_set)
        how = (op, prescale, postscale, process_set)
        return _means().allreduce([tensor], [_name(name, "allreduce")], *how)[0]

    def gradients(
        self, tensors: Sequence[Any], names: Sequence[str], op: int, prescale: float, postscale: float,
        process_set: ProcessSet,
    ) -> list[Any]:  # fmt: skip
        """allreduce() of each, not differentiable; they run in any order, and need not run if nobody wants them."""
        _check(tensors, process_set)
        return list(_means().gradients(tensors, names, op, prescale, postscale, process_set))

    def join(self) -> Any:
        return _means().join(_name(None, "join"))

    def grouped_allreduce(
        self, tensors: Sequence[Any], name: str | None, op: int, prescale: float, postscale: float,
        process_set: ProcessSet, *, in_place: bool = False, now: bool = True,
    ) -> Sequence[Any]:  # fmt: skip
        _check(tensors, process_set)
        name = _name(name, "grouped_allreduce")
        return _means().grouped_allreduce(tensors, name, op, prescale, postscale, process_set)

    def broadcast(
        self, tensor: Any, root: int, name: str | None, process_set: ProcessSet,
        *, in_place: bool = False, now: bool = True,
    ) -> Any:  # fmt: skip
        _check([tensor], process_set)
        return _means().broadcast(tensor, root, _name(name, "broadcast"), process_set)

    def allgather(self, tensor: Any, name: str | None, process_set: ProcessSet, *, now: bool = True) -> Any:
        _check([tensor], process_set)
        return _means().grouped_allgather([tensor], _name(name, "allgather"), process_set)[0]

    def grouped_allgather(
        self, tensors: Sequence[Any], name: str | None, process_set: ProcessSet, *, now: bool = True
    ) -> Sequence[Any]:
        _check(tensors, process_set)
        return _means().grouped_allgather(tensors, _name(name, "grouped_allgather"), process_set)

    def alltoall(
        self, tensor: Any, splits: Any, splits_like: Any, name: str | None, process_set: ProcessSet, *, now: bool = True
    ) -> tuple[Any, Any]:
        _check([tensor], process_set)
        splits = tf.constant([], tf.int32) if splits is None else tf.convert_to_tensor(splits, tf.int32)
        return _means().alltoall(tensor, splits, _name(name, "alltoall"), process_set)

    def reducescatter(
        self, tensor: Any, name: str | None, op: int, prescale: float, postscale: float, process_set: ProcessSet,
        *, now: bool = True,
    ) -> Any:  # fmt: skip
        _check([tensor], process_set)
        how = (_name(name, "reducescatter"), op, prescale, postscale, process_set)
        return _means().grouped_reducescatter([tensor], *how)[0]

    def grouped_reducescatter(
        self, tensors: Sequence[Any], name: str | None, op: int, prescale: float, postscale: float,
        process_set: ProcessSet, *, now: bool = True,
    ) -> Sequence[Any]:  # fmt: skip
        _check(tensors, process_set)
        how = (_name(name, "grouped_reducescatter"), op, prescale, postscale, process_set)
        return _means().grouped_reducescatter(tensors, *how)

    # ---- what gradient rules ask

    def length(self, tensor: Any) -> Any:
        rows = tf.compat.dimension_value(tensor.shape[0]) if tensor.shape.rank else None
        return tf.shape(tensor)[0] if rows is None else rows

    def as_splits(self, received: Any) -> Any:
        return received

    def starts(self, lengths: Sequence[Any], name: str | None, process_set: ProcessSet) -> Sequence[Any]:
        position = engine.members_of(process_set).index(engine.rank())
        if xla.is_compiling():  # all have equally many
            return [position * length for length in lengths]
        everyones = self.allgather(tf.stack([tf.stack(list(lengths))]), name, process_set)
        before = everyones[:position]
        return tf.unstack(tf.reduce_sum(before, axis=0), len(lengths))


def _means() -> Any:
    if xla.is_compiling():
        return by_xla
    return by_numpy if native.OPERATIONS is None else by_kernel


def _check(tensors: Sequence[Any], process_set: ProcessSet) -> None:
    """What is wrong is told where the node is made, and not somewhere in a step."""
    if process_set.process_set_id:  # the global one exists also before init()
        process_set.size()  # or a ValueError
    for tensor in tensors:
        FRAMEWORK.check(tensor)


def _name(name: str | None, kind: str) -> str:
    return unique_name(f"Horovod_{kind}" if name is None else name)


def unique_name(name: str) -> str:
    """Counted by the graph, below its current name scope."""
    return str(tf.compat.v1.get_default_graph().unique_name(name))


GRAPH = GraphCollectives()
