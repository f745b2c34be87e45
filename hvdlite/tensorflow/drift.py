"""The drift guard for loops around tf.GradientTape."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvdlite.adapter.array_guard import StepGuard
from hvdlite.core.process_sets import ProcessSet, global_process_set

__all__ = ["DriftGuard"]


class DriftGuard:
    """Whether the variables of all ranks stay the same: see docs/guides/troubleshooting.md.

        guard = hvd.DriftGuard()
        for batch in data:
            train_step(batch)
            guard.compare(model.trainable_variables)

    All members of `process_set` call compare() equally often, outside tf.function. Most calls read
    none of the variables, and none reads all.
    """

    def __init__(self, process_set: ProcessSet = global_process_set) -> None:
        self._steps = StepGuard("tensorflow", process_set, lambda variable: variable.numpy())

    @property
    def compared(self) -> int:
        """How often parts of the variables were compared."""
        return self._steps.compared

    def compare(self, variables: Any) -> None:
        """Compares a part of the variables in some of the calls. Raises MismatchError on all ranks
        if one differs and HVDLITE_DRIFT=error."""
        if not tf.executing_eagerly():
            raise RuntimeError(
                "DriftGuard.compare() was called in a graph: call it after the tf.function, in the "
                "loop over the batches"
            )
        found = tf.nest.flatten(variables)
        self._steps.step(found, len(found), lambda: [_label(each) for each in found])


def _label(variable: Any) -> str:
    return str(getattr(variable, "path", variable.name))
