"""Weights are the same on all ranks where fit() evaluates them, saves them, or is over."""

from __future__ import annotations

from typing import Any

from hvdlite.adapter.divergence import mean_metrics
from hvdlite.keras.callbacks.quiet import QuietCallback


class LocalStepsCallback(QuietCallback):
    """For hvd.LocalSGD and hvd.DiLoCo: averages the weights before each validation and at the end
    of each epoch. Put it before callbacks that save the model.

    With adaptive=True it also sets the interval, once per epoch, by the loss of all ranks.
    """

    _is_averaged = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Weights go apart."""
        self._is_averaged = False

    def on_test_begin(self, logs: Any = None) -> None:
        """The validation of an epoch begins."""
        self._average()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """The weights are saved now, maybe."""
        self._average()
        optimizer = self.model.optimizer
        if optimizer._hvd_settings.plan.adaptive and logs and "loss" in logs:
            optimizer.adapt(mean_metrics({"loss": float(logs["loss"])})["loss"])

    def _average(self) -> None:
        if not self._is_averaged:
            self.model.optimizer.sync()  # on JAX this brings the variables up to date
            self._is_averaged = True
