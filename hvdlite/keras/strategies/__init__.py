"""Ways to train that send less, or take larger batches, than averaging each step's gradients."""

from __future__ import annotations

from hvdlite.adapter.outer import OuterSGD
from hvdlite.adapter.strategy import Strategy
from hvdlite.keras.strategies.lars import LARS
from hvdlite.keras.strategies.local_steps import DiLoCo, LocalSGD
from hvdlite.keras.strategies.onebit import OneBitAdam

__all__ = ["LARS", "DiLoCo", "LocalSGD", "OneBitAdam", "OuterSGD", "Strategy"]
