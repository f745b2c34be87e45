"""Elastic training with TensorFlow: a job whose ranks may die, leave and come while it trains.

    state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0)

    @hvd.elastic.run
    def train(state):
        ...
        state.commit()

The function that `run` decorates may fail with TensorFlow's errors: those of hvdlite in them count.

    state          START HERE: TensorFlowState
    keras_state    TensorFlowKerasState
    gate           a graph tells a state when it updates
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import tensorflow as _tf

from hvdlite import elastic as _elastic
from hvdlite.adapter import failures as _failures
from hvdlite.elastic import *  # noqa: F403
from hvdlite.tensorflow.elastic.state import TensorFlowState as TensorFlowState

if TYPE_CHECKING:
    from hvdlite.tensorflow.elastic.keras_state import TensorFlowKerasState as TensorFlowKerasState

_Result = TypeVar("_Result")

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]


def run(func: Callable[..., _Result]) -> Callable[..., _Result]:  # type: ignore[no-redef]
    """hvdlite.elastic.run(), which understands TensorFlow's errors too."""
    return _elastic.run(_failures.translated(_tf.errors.OpError)(func))


def __getattr__(name: str) -> Any:
    if name == "TensorFlowKerasState":  # it loads Keras
        from hvdlite.tensorflow.elastic.keras_state import TensorFlowKerasState

        return TensorFlowKerasState
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
