"""The drift guard for loops around tf.GradientTape."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvdlite.adapter.agreement.drift_guard import StepGuard


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
