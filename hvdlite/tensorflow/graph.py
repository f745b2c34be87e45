"""Collectives as nodes of a graph: as hvdlite.core.collectives, for code inside a tf.function.

A node's name is its operation's name, so every rank must build the same graph; how often it has
been traced does not matter. The graph counts calls without a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvdlite.base.operations import ALLGATHER
from hvdlite.core import engine
from hvdlite.core.operations import Call, equal_starts
from hvdlite.core.process_sets import ProcessSet
from hvdlite.tensorflow import by_kernel, by_numpy, xla
from hvdlite.tensorflow.framework import FRAMEWORK


class GraphCollectives:
    """See hvdlite.core.collectives.Collectives."""

    framework = FRAMEWORK

    def run(self, call: Call, tensors: Sequence[Any]) -> tuple[Any, ...]:
        _check(tensors, call.process_set)
        default = f"grouped_{call.operation.name}" if call.grouped else call.operation.name
        call = call._replace(name=_name(call.name, default))
        return tuple(_means().emit(call, list(tensors)))

    def gradients(self, call: Call, tensors: Sequence[Any], names: Sequence[str]) -> list[Any]:
        """An allreduce of each under its own name, not differentiable.

        They run in any order, and those whose results are not used need not run.
        """
        _check(tensors, call.process_set)
        return list(_means().gradients(call, tensors, names))

    def join(self) -> Any:
        return _means().join(_name(None, "join"))

    # ---- what gradient rules ask

    def length(self, tensor: Any) -> Any:
        if tensor.shape.rank == 0:
            return 0
        rows = None if tensor.shape.rank is None else tf.compat.dimension_value(tensor.shape[0])
        return tf.shape(tensor)[0] if rows is None else rows

    def as_splits(self, received: Any) -> Any:
        return received

    def starts(
        self, lengths: Sequence[Any], name: str | None, process_set: ProcessSet
    ) -> Sequence[Any]:
        if xla.is_compiling():  # all have equally many
            return equal_starts(lengths, process_set)
        call = Call(ALLGATHER, name, process_set)
        (everyones,) = self.run(call, [tf.stack([tf.stack(list(lengths))])])
        before = everyones[: engine.members_of(process_set).index(engine.rank())]
        return tf.unstack(tf.reduce_sum(before, axis=0), len(lengths))


def _means() -> Any:
    if xla.is_compiling():
        return xla
    return by_numpy if by_kernel.OPERATIONS is None else by_kernel


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
