"""Keeps the best model."""

from __future__ import annotations

from typing import Any

from hvdlite.job.basics import rank
from hvdlite.keras.flavour import KERAS

_NO_PATH = "hvdlite-best-model-has-no-path.weights.h5"


class BestModelCheckpoint(KERAS.callbacks.ModelCheckpoint):  # type: ignore[misc, name-defined]
    """keras.callbacks.ModelCheckpoint(save_best_only=True) whose `filepath` is set later, and which
    rank 0 writes alone."""

    def __init__(self, monitor: str = "val_loss", verbose: int = 0, save_weights_only: bool = False,
                 mode: str = "auto", save_freq: Any = "epoch") -> None:  # fmt: skip
        nowhere = _NO_PATH if save_weights_only else _NO_PATH.replace(".weights.h5", ".keras")
        super().__init__(nowhere, monitor, verbose, save_best_only=True,
                         save_weights_only=save_weights_only, mode=mode,
                         save_freq=save_freq)  # fmt: skip
        self.filepath: str | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """The last moment to have a path."""
        if self.filepath is None:
            raise ValueError(
                "BestModelCheckpoint does not know where to save: set its .filepath before fit()"
            )
        super().on_train_begin(logs)

    def _save_model(self, *args: Any, **kwargs: Any) -> None:
        if rank() == 0:
            super()._save_model(*args, **kwargs)
