"""Training that sends less, or takes larger batches, than averaging each step's gradients.

local_steps    START HERE: LocalSGD and DiLoCo
onebit         1-bit Adam
lars           LARS
"""

from __future__ import annotations

from hvdlite.adapter.local.outer import OuterSGD
from hvdlite.adapter.strategy import Strategy
from hvdlite.keras.strategies.lars import LARS
from hvdlite.keras.strategies.local_steps import DiLoCo, LocalSGD
from hvdlite.keras.strategies.onebit import OneBitAdam

__all__ = ["LARS", "DiLoCo", "LocalSGD", "OneBitAdam", "OuterSGD", "Strategy"]
