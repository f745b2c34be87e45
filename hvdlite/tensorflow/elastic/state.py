"""TensorFlowState: variables, and all else that a program trains with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvdlite.adapter import divergence
from hvdlite.arrays.ops import OPS
from hvdlite.core.process_sets import global_process_set
from hvdlite.elastic.copies import Array, Copy
from hvdlite.elastic.handlers import StateHandler
from hvdlite.elastic.state import ObjectState
from hvdlite.job import basics
from hvdlite.tensorflow import functions

__all__ = ["TensorFlowState"]


class VariablesHandler(StateHandler):
    """Of a variable, or of a list of variables. `session`: of TensorFlow 1.

    What updates them is not known, and so nothing says when: each boundary keeps all.
    """

    def __init__(self, value: Any, session: Any) -> None:
        super().__init__(value)
        self._session = session
        self._copy = Copy()
        self._kept = Copy()

    def save(self) -> None:
        self._copy.take(self._variables(), self._read())

    def restore(self) -> None:
        self._write(self._copy)

    def sync(self, root_rank: int = 0) -> None:
        variables, arrays = self._variables(), self._read()
        divergence.check_alike(arrays, [v.name for v in variables], global_process_set)
        names = [f"elastic.variables.{i}" for i in range(len(arrays))]
        received = Copy()
        received.take(variables, OPS.broadcast_all(arrays, names, root_rank, global_process_set))
        self._write(received)

    def keep(self) -> None:
        self._kept.take(self._variables(), self._read())

    def put_back(self) -> None:
        self._write(self._kept)

    def _variables(self) -> list[Any]:
        return [self.value] if isinstance(self.value, tf.Variable) else list(self.value)

    def _read(self) -> Sequence[Array]:
        if self._session is not None:
            contents: list[Array] = self._session.run(self._variables())
            return contents
        return [variable.numpy() for variable in self._variables()]

    def _write(self, copy: Copy) -> None:
        for variable, array in copy.items():
            if self._session is not None:
                variable.load(array, self._session)
            else:
                variable.assign(array)


class TensorFlowState(ObjectState):
    """`variables`: by default all global ones of TensorFlow 1. Keywords are attributes.

    step() copies all variables: what updates them is not known here, as it is to
    TensorFlowKerasState with a DistributedOptimizer.
    """

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        self._session = session
        given = tf.compat.v1.global_variables() if variables is None else list(variables)
        super().__init__(functions.broadcast_object, basics.rank, variables=given, **kwargs)

    def _handler_of(self, value: Any) -> StateHandler | None:
        several = isinstance(value, (list, tuple)) and len(value) > 0
        if all(isinstance(v, tf.Variable) for v in (value if several else [value])):
            return VariablesHandler(value, self._session)
        return super()._handler_of(value)
