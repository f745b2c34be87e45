"""hvdlite's numbers among the metrics of an epoch."""

from __future__ import annotations

from typing import Any

from hvdlite.job.scalars import OfEpoch
from hvdlite.keras.callbacks.quiet import QuietCallback


class MetricsCallback(QuietCallback):
    """Adds hvdlite's numbers to the logs of each epoch, as hvd.metric_scalars() returns them: for
    the history and for all callbacks behind it, such as TensorBoard and those of Weights & Biases
    and MLflow.

    They cover the training steps of the epoch, and not its validation. Behind
    `MetricAverageCallback` they are those of this rank; before it they are averages.
    """

    _epoch: OfEpoch | None = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """The time of an epoch begins."""
        self._epoch = OfEpoch()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts. With steps_per_execution, `batch` is the last of several."""
        if self._epoch is not None:
            self._epoch.steps = batch + 1

    def on_test_begin(self, logs: Any = None) -> None:
        """The training steps of the epoch are over."""
        if self._epoch is not None:
            self._epoch.end()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Changes `logs` in place."""
        if logs is not None and self._epoch is not None:
            logs.update(self._epoch.end())
