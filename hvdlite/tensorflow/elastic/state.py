"""TensorFlowState: variables, and all else that a program trains with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from hvdlite.adapter.agreement import divergence
from hvdlite.core.arrays.ops import OPS
from hvdlite.core.process_sets import global_process_set
from hvdlite.elastic.handlers import Array, Contents, StateHandler, Variables, VariablesHandler
from hvdlite.elastic.state import ObjectState
from hvdlite.job import basics
from hvdlite.tensorflow import functions

__all__ = ["TensorFlowState"]


class OfTensorFlow(VariablesHandler):
    """Of a variable, or of a list of variables. `session`: of TensorFlow 1.

    What updates them is not known, and so nothing says when: each boundary keeps all.
    """

    def __init__(self, value: Any, session: Any) -> None:
        super().__init__(value)
        self._session = session

    def variables(self) -> Variables:
        return [self.value] if _is_variable(self.value) else list(self.value)

    def read(self, variables: Variables) -> Iterable[Array]:
        if self._session is None:
            return [variable.numpy() for variable in variables]
        contents: list[Array] = self._session.run(variables)
        return contents

    def write(self, contents: Contents) -> None:
        for variable, array in contents:
            if self._session is None:
                variable.assign(array)
            else:
                variable.load(array, self._session)

    def sync(self, root_rank: int = 0) -> None:
        variables = self.variables()
        arrays = list(self.read(variables))
        divergence.check_alike(arrays, [v.name for v in variables], global_process_set)
        names = [f"elastic.variables.{i}" for i in range(len(arrays))]
        received = OPS.broadcast_all(arrays, names, root_rank, global_process_set)
        self.write(list(zip(variables, received, strict=True)))


class TensorFlowState(ObjectState):
    """`variables`: by default all global ones of TensorFlow 1. Keywords are attributes.

    step() copies all variables: what updates them is not known here, as it is to
    TensorFlowKerasState with a DistributedOptimizer.
    """

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        self._session = session
        given = tf.compat.v1.global_variables() if variables is None else list(variables)
        wrong = [type(each).__name__ for each in given if not _is_variable(each)]
        if wrong:
            raise TypeError(f"variables= takes variables of TensorFlow, not {wrong[0]}")
        super().__init__(functions.broadcast_object, basics.rank, variables=given, **kwargs)

    def _handler_of(self, value: Any) -> StateHandler | None:
        several = isinstance(value, (list, tuple)) and len(value) > 0
        if all(map(_is_variable, value if several else [value])):
            return OfTensorFlow(value, self._session)
        return super()._handler_of(value)


def _is_variable(value: Any) -> bool:
    """Of TensorFlow, or of Keras 3, whose variables are none of TensorFlow's."""
    return isinstance(value, tf.Variable) or all(
        callable(getattr(value, name, None)) for name in ("assign", "numpy")
    )
