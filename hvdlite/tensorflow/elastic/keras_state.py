"""TensorFlowKerasState: Horovod's name for the state of a model in tf.keras."""

from __future__ import annotations

from typing import Any

from hvdlite.keras.elastic.state import KerasState

__all__ = ["TensorFlowKerasState"]


class TensorFlowKerasState(KerasState):
    """A model of tf.keras, its optimizer, and keywords, which are attributes.

    `backend` is accepted for compatibility with Horovod.
    """

    def __init__(
        self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any
    ) -> None:
        del backend
        super().__init__(model, optimizer, **kwargs)
