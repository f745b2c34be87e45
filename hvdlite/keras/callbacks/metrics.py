"""The metrics of an epoch, averaged over the ranks."""

from __future__ import annotations

from typing import Any

from hvdlite.adapter.agreement.divergence import mean_metrics
from hvdlite.job.basics import size
from hvdlite.keras.callbacks.quiet import QuietCallback
from hvdlite.keras.wrapping import come_together


class MetricAverageCallback(QuietCallback):
    """Averages metrics at the end of each epoch, for all callbacks behind it and for the history.

    Put it before those that read metrics (EarlyStopping, ReduceLROnPlateau, ModelCheckpoint): then
    all ranks decide alike.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()
        del device

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Changes `logs` in place."""
        if not logs or size() == 1:
            return
        come_together(self.model.optimizer)
        logs.update(mean_metrics({name: float(logs[name]) for name in sorted(logs)}))
