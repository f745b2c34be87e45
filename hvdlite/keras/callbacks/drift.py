"""Whether the replicas of ranks stay the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from hvdlite.adapter.drift_guard import DriftGuard, Replica
from hvdlite.adapter.step import Options
from hvdlite.core import engine
from hvdlite.keras.callbacks.quiet import QuietCallback
from hvdlite.keras.host import Array, to_numpy


class DriftGuardCallback(QuietCallback):
    """Compares the weights of the ranks while fit() goes on: see docs/guides/troubleshooting.md.

    BroadcastGlobalVariablesCallback does the same. Variables that the optimizer keeps local, and
    `local_variables`, may differ.
    """

    def __init__(self, local_variables: Sequence[Any] = ()) -> None:
        super().__init__()
        self._local = list(local_variables)
        self._guard: DriftGuard | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Comparisons begin anew."""
        self._guard = None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Compares a part of the weights, in some of the batches."""
        if self._guard is None:
            self._guard = guard_of(lambda: self.model, self._local)
        if self._guard is not None:
            self._guard.compare()


def guard_of(model: Callable[[], Any], local: Collection[Any]) -> DriftGuard | None:
    """A guard of the model's weights; None if its optimizer reduces with no other rank. On JAX the
    call of `model` brings the weights up to date."""
    living = model()
    optimizer = getattr(living, "optimizer", None)
    if not hasattr(optimizer, "_hvd"):  # tf_keras has it inside a LossScaleOptimizer
        optimizer = getattr(optimizer, "inner_optimizer", None)
    options: Options | None = getattr(optimizer, "_hvd", None)
    if options is None or not options.reduces():
        return None
    left_out = {id(variable) for variable in local} | optimizer._hvd_local.ids()  # type: ignore[union-attr]
    replicas = [
        Replica(str(getattr(each, "path", each.name)), each)
        for each in living.trainable_variables
        if id(each) not in left_out
    ]
    return DriftGuard(f"{options.scope}keras.", options.process_set, replicas, _Reader(model))


class _Reader:
    """See hvdlite.adapter.drift_guard.Reader."""

    def __init__(self, model: Callable[[], Any]) -> None:
        self._model = model

    def size(self, variable: Any) -> int:
        return int(np.prod(variable.shape))  # of elements, which nearly always have the same size

    def take(self, variables: Sequence[Any]) -> Callable[[], Sequence[int]]:
        self._model()
        digests = engine.digests([_contents(variable) for variable in variables])
        return lambda: digests

    def exact(self, variable: Any) -> int:
        self._model()
        values = _contents(variable)
        unlike_itself = values != values  # noqa: PLR0124  # NaN, whatever the type is
        if np.any(unlike_itself):
            values = np.where(unlike_itself, np.array(np.nan, values.dtype), values)
        return engine.digests([values])[0]


def _contents(variable: Any) -> Array:
    return np.ascontiguousarray(to_numpy(variable))
