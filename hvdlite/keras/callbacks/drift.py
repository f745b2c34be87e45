"""Whether the replicas of ranks stay the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from hvdlite.adapter.agreement.drift_guard import ArrayReader, DriftGuard, Replica, Taken
from hvdlite.adapter.step import Options
from hvdlite.keras.callbacks.quiet import QuietCallback
from hvdlite.keras.host import to_numpy


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
            loss = (logs or {}).get("loss")
            if loss is not None:  # the mean of this rank's losses in the epoch so far
                self._guard.see(lambda: math.isfinite(loss))
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
    kept = getattr(optimizer, "_hvd_local", None)  # which hvd.OneBitAdam has not
    left_out = {id(variable) for variable in local} | (kept.ids() if kept else set())
    replicas = [
        Replica(str(getattr(each, "path", each.name)), each)
        for each in living.trainable_variables
        if id(each) not in left_out
    ]
    return DriftGuard(f"{options.scope}keras.", options.process_set, replicas, _Reader(model))


class _Reader(ArrayReader):
    def __init__(self, model: Callable[[], Any]) -> None:
        super().__init__(to_numpy)
        self._model = model

    def take(self, variables: Sequence[Any]) -> Callable[[], Taken]:
        self._model()
        return super().take(variables)

    def exact(self, variable: Any) -> int:
        self._model()
        return super().exact(variable)

    def is_finite(self, variable: Any) -> bool:
        self._model()
        return super().is_finite(variable)
