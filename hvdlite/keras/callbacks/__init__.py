"""Callbacks for fit(): ranks start equal and stay equal, show the average of their metrics, and
change the learning rate together. fit() shows its progress on rank 0."""

from __future__ import annotations

from hvdlite.keras.callbacks.broadcasting import BroadcastGlobalVariablesCallback
from hvdlite.keras.callbacks.checkpoint import BestModelCheckpoint
from hvdlite.keras.callbacks.drift import DriftGuardCallback
from hvdlite.keras.callbacks.learning_rate import (
    LearningRateScheduleCallback,
    LearningRateWarmupCallback,
)
from hvdlite.keras.callbacks.metrics import MetricAverageCallback
from hvdlite.keras.callbacks.scalars import MetricsCallback
from hvdlite.keras.strategies.callback import LocalStepsCallback

__all__ = [
    "BestModelCheckpoint", "BroadcastGlobalVariablesCallback", "DriftGuardCallback",
    "LearningRateScheduleCallback", "LearningRateWarmupCallback", "LocalStepsCallback",
    "MetricAverageCallback", "MetricsCallback",
]  # fmt: skip
