"""Elastic training with Keras: a job whose ranks may die, leave and come while it trains.

    state = hvd.elastic.KerasState(model, epoch=0)

    @hvd.elastic.run
    def train(state):
        model.fit(..., epochs=90 - state.epoch, callbacks=[
            hvd.elastic.UpdateEpochStateCallback(state), hvd.elastic.CommitStateCallback(state)])

The function that `run` decorates may fail with the backend's errors. `fit`, which is not
called again, is in keras/in_place.

    state        START HERE: KerasState, and how its models are copied, put back and moved
    callbacks    for fit()
    gate         an optimizer tells a state when it updates
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hvdlite import elastic as _elastic
from hvdlite.adapter import failures as _failures
from hvdlite.elastic import *  # noqa: F403
from hvdlite.keras.elastic.callbacks import CommitStateCallback as CommitStateCallback
from hvdlite.keras.elastic.callbacks import StepStateCallback as StepStateCallback
from hvdlite.keras.elastic.callbacks import UpdateBatchStateCallback as UpdateBatchStateCallback
from hvdlite.keras.elastic.callbacks import UpdateEpochStateCallback as UpdateEpochStateCallback
from hvdlite.keras.elastic.state import KerasState as KerasState
from hvdlite.keras.in_place import fit as fit

_Result = TypeVar("_Result")

__all__ = [
    "CommitStateCallback", "KerasState", "StepStateCallback", "UpdateBatchStateCallback",
    "UpdateEpochStateCallback", "fit", "run",
]  # fmt: skip


def run(func: Callable[..., _Result]) -> Callable[..., _Result]:  # type: ignore[no-redef]
    """hvdlite.elastic.run(), which understands the backend's errors too."""
    return _elastic.run(_failures.of_any_framework()(func))
