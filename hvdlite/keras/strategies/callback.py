"""Weights are the same on all ranks where fit() evaluates them, saves them, or is over."""

from __future__ import annotations

from typing import Any

from hvdlite.adapter.agreement.divergence import mean_metrics
from hvdlite.keras.callbacks.quiet import QuietCallback


class LocalStepsCallback(QuietCallback):
    """For hvd.LocalSGD and hvd.DiLoCo: averages the weights before each validation and at the end
    of each epoch. Put it before callbacks that save the model.

    With adaptive=True it also sets the interval, once per epoch, by the loss of all ranks. Beside
    an optimizer whose ranks are always the same it does nothing.
    """

    _is_averaged = False

    def on_train_begin(self, logs: Any = None) -> None:
        """A TypeError if ranks never average anything."""
        optimizer = self.model.optimizer
        if not (hasattr(optimizer, "_hvd_settings") or hasattr(optimizer, "_hvd")):
            raise TypeError(
                "LocalStepsCallback: the model was compiled with a plain "
                f"{type(optimizer).__name__}, so nothing would average its weights. Compile it "
                "with hvd.LocalSGD(...) or hvd.DiLoCo(...)"
            )

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
        settings = getattr(optimizer, "_hvd_settings", None)
        if settings is not None and settings.plan.adaptive and logs and "loss" in logs:
            optimizer.adapt(mean_metrics({"loss": float(logs["loss"])})["loss"])

    def _average(self) -> None:
        optimizer = self.model.optimizer  # on JAX this brings the variables up to date
        if not self._is_averaged and hasattr(optimizer, "_hvd_settings"):
            optimizer.sync()
            self._is_averaged = True
