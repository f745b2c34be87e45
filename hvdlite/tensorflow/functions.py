"""Ranks are equal at the start and stay so: variables, any object, and the drift guard for loops
around tf.GradientTape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from hvdlite.adapter.agreement.drift_guard import StepGuard
from hvdlite.base.operations import BROADCAST
from hvdlite.core.arrays.objects import allgather_object as _allgather_object
from hvdlite.core.arrays.objects import broadcast_object as _broadcast_object
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.tensorflow.errors import in_tensorflows_words
from hvdlite.tensorflow.graph import GRAPH, unique_name
from hvdlite.tensorflow.ops import EAGER, do_not_convert

__all__ = [
    "BroadcastGlobalVariablesHook", "allgather_object", "broadcast_", "broadcast_global_variables",
    "broadcast_object", "broadcast_object_fn", "broadcast_variables",
]  # fmt: skip


@do_not_convert
def broadcast_(variables: Sequence[Any], root_rank: int, name: str | None = None,
               process_set: ProcessSet = global_process_set) -> list[Any]:  # fmt: skip
    """Gives variables the values of `root_rank`, in place, and returns them; in a graph, what they
    are after that."""
    variables = list(variables)
    values = [tf.convert_to_tensor(variable) for variable in variables]
    if not tf.executing_eagerly():
        scope = unique_name(name or "broadcast_variables")
        calls = [
            Call(BROADCAST, f"{scope}/{i}", process_set, root=root_rank) for i in range(len(values))
        ]
        new = [GRAPH.run(call, [value])[0] for call, value in zip(calls, values, strict=True)]
        return [variable.assign(value) for variable, value in zip(variables, new, strict=True)]
    names = [name and f"{name}.{i}" for i in range(len(values))]
    with in_tensorflows_words():
        new = EAGER.broadcast_all(values, names, root_rank, process_set)
    for variable, value in zip(variables, new, strict=True):
        variable.assign(value)
    return variables


def broadcast_variables(variables: Sequence[Any], root_rank: int,
                        process_set: ProcessSet = global_process_set,
                        inplace: bool = False) -> Any:  # fmt: skip
    """Gives variables the values of `root_rank`. In a graph of TensorFlow 1: what does so when it
    is run.

    `inplace` is accepted for compatibility with Horovod.
    """
    assigned = broadcast_(variables, root_rank, None, process_set)
    return None if tf.executing_eagerly() else tf.group(*assigned)


def broadcast_global_variables(root_rank: int) -> Any:
    """broadcast_variables() of all global variables of a graph of TensorFlow 1."""
    if tf.executing_eagerly():
        raise RuntimeError(
            "hvd.broadcast_global_variables() needs a graph of TensorFlow 1, and this program runs "
            "eagerly: call "
            "hvd.broadcast_variables(model.variables + optimizer.variables, root_rank=0)"
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """For sessions of TensorFlow 1: broadcasts all global variables of `root_rank` once the session
    has been made."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.bcast_op: Any = None
        self.device = device

    def begin(self) -> None:
        if self.bcast_op is None or self.bcast_op.graph is not tf.compat.v1.get_default_graph():
            self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self.bcast_op)


# Objects travel beside graphs and sessions, which therefore are not needed.


def broadcast_object(obj: Any, root_rank: int = 0, session: Any = None, name: str | None = None,
                     process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """`root_rank`'s object on every rank, pickled on its way. The root gets its own back; elsewhere
    `obj` is ignored."""
    with in_tensorflows_words():
        return _broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(root_rank: int = 0, session: Any = None, name: str | None = None,
                        process_set: ProcessSet = global_process_set,
                        ) -> Callable[[Any], Any]:  # fmt: skip
    """A function that does broadcast_object()."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(obj: Any, session: Any = None, name: str | None = None,
                     process_set: ProcessSet = global_process_set) -> list[Any]:  # fmt: skip
    """The objects of all ranks, in their order."""
    with in_tensorflows_words():
        return _allgather_object(obj, name, process_set)


class DriftGuard(StepGuard):
    __doc__ = StepGuard.__doc__

    def contents(self, parameter: Any) -> Any:
        return parameter.numpy()

    def flat(self, parameters: Any) -> tuple[list[Any], Any]:
        variables = tf.nest.flatten(parameters)
        return variables, len(variables)

    def labels(self, parameters: Any) -> list[str]:
        return [str(getattr(each, "path", each.name)) for each in tf.nest.flatten(parameters)]

    def is_recorded(self) -> bool:
        return not tf.executing_eagerly()
