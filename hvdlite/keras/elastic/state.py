"""KerasState: a model, its optimizer, and all else that a program trains with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.elastic.handlers import Array, Contents, StateHandler, Variables, VariablesHandler
from hvdlite.elastic.state import ObjectState
from hvdlite.job import basics
from hvdlite.keras import values
from hvdlite.keras.elastic.gate import backends_gate, guards
from hvdlite.keras.flavour import KERAS
from hvdlite.keras.host import build, to_numpy, variables_of

__all__ = ["KerasState"]


# ---- how a model and its optimizer are copied, put back and moved to other ranks.


class ModelHandler(VariablesHandler):
    """Of a model with its optimizer, its metrics and its seed generators."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        super().__init__(model)
        self._optimizer = optimizer
        if optimizer is not None:
            build(optimizer, model.trainable_variables)

    def variables(self) -> Variables:
        shared = self._shared()
        known = {id(variable) for variable in shared}
        metrics = [v for metric in self.value.metrics for v in metric.variables]
        return [*shared, *(v for v in metrics if id(v) not in known)]

    def not_guarded(self) -> Variables | None:
        """Behind the gate: moving averages, seeds and metrics; not weights that are frozen."""
        if not self._is_guarded():
            return None
        weights = {id(v) for layer in self.value._flatten_layers() for v in _weights(layer)}
        updated = {id(v) for v in variables_of(self._optimizer)}
        return [v for v in self.variables() if id(v) not in weights | updated]

    def read(self, variables: Variables) -> Iterable[Array]:
        return map(to_numpy, variables)

    def write(self, contents: Contents) -> None:
        backends_gate().forget(self.value)
        for variable, array in contents:
            variable.assign(array)

    def keep(self) -> None:
        backends_gate().close()
        super().keep()

    def is_torn(self) -> bool:
        return self._is_guarded() and backends_gate().has_begun()

    def wait(self) -> None:
        """Until the step is computed. Raises what it has raised."""
        backends_gate().wait(self.value, self.variables())

    def sync(self, root_rank: int = 0) -> None:
        """Metrics are each rank's own, and so are seeds. How far a seed has got is not."""
        if not backends_gate().are_alive(self.variables()):
            self.revive()
        seeds = [v for v in self.value.variables if "seed_generator_state" in v.name]
        own = [to_numpy(variable).copy() for variable in seeds]
        values.broadcast_variables(self._shared(), root_rank)
        for variable, array in zip(seeds, own, strict=True):
            array[1:] = to_numpy(variable)[1:]
            variable.assign(array)

    def _is_guarded(self) -> bool:
        several = getattr(self.value, "steps_per_execution", 1) != 1  # whose updates are one step
        return guards(self._optimizer) and not several

    def _shared(self) -> Variables:
        updated = [] if self._optimizer is None else variables_of(self._optimizer)
        return [*self.value.variables, *updated]


def _weights(layer: Any) -> Variables:
    """Those made to be trained, frozen or not."""
    found = getattr(layer, "_trainable_variables", None)
    return list(layer._trainable_weights if found is None else found)


class KerasState(ObjectState):
    """`optimizer`: the model's by default. Keywords are attributes, among them other models.

    step() copies no weights where a DistributedOptimizer updates them on TensorFlow or torch. On
    JAX, and in a function that XLA compiles, it copies all.
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        self._given = optimizer
        super().__init__(broadcast_object, basics.rank, model=model, **kwargs)
        if not isinstance(self._handlers.get("model"), ModelHandler):
            raise TypeError(f"expected a model of Keras, got {type(model).__name__}")
        self.optimizer = optimizer or getattr(model, "optimizer", None)

    def _handler_of(self, value: Any) -> StateHandler | None:
        if not isinstance(value, KERAS.Model):
            return super()._handler_of(value)
        if not value.built:
            raise ValueError(
                f"the model {value.name!r} has no variables yet: build it before its state is made,"
                " with model.build(shape) or a first batch"
            )
        given, self._given = self._given, None
        return ModelHandler(value, given or getattr(value, "optimizer", None))

    def _at_boundary(self) -> None:
        for handler in self._handlers.values():
            if isinstance(handler, ModelHandler):
                handler.wait()
        super()._at_boundary()
