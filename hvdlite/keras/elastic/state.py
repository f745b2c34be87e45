"""KerasState: a model, its optimizer, and all else that a program trains with."""

from __future__ import annotations

from typing import Any

from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.elastic.handlers import StateHandler
from hvdlite.elastic.state import ObjectState
from hvdlite.job import basics
from hvdlite.keras.elastic.handlers import ModelHandler
from hvdlite.keras.flavour import KERAS

__all__ = ["KerasState"]


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
