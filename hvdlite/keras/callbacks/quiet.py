"""Keras' own progress bar appears on rank 0 only."""

from __future__ import annotations

from typing import Any

from hvdlite.job.basics import rank
from hvdlite.keras.flavour import KERAS


class QuietCallback(KERAS.callbacks.Callback):  # type: ignore[misc, name-defined]
    """Base of hvdlite's callbacks: fit() without `verbose` shows nothing on other ranks than 0."""

    def set_params(self, params: Any) -> None:
        """All callbacks of a fit() share `params`, and Keras appends its progress bar behind them.
        A number as `verbose` is obeyed. tf_keras replaces "auto" before a callback sees it."""
        if params and params.get("verbose") == "auto" and rank() != 0:
            params["verbose"] = 0
        super().set_params(params)
