"""The drift guard for training loops of JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from hvdlite.adapter.agreement.drift_guard import StepGuard
from hvdlite.jax import trace


class DriftGuard(StepGuard):
    __doc__ = StepGuard.__doc__

    def contents(self, parameter: Any) -> Any:
        return np.asarray(parameter)

    def flat(self, parameters: Any) -> Any:
        return jax.tree_util.tree_flatten(parameters)

    def labels(self, parameters: Any) -> list[str]:
        paths, _ = jax.tree_util.tree_flatten_with_path(parameters)
        return [jax.tree_util.keystr(path) for path, _ in paths]

    def is_recorded(self) -> bool:
        return trace.is_tracing()
