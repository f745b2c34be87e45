"""Training that sends less than averaging each step's gradients.

local_steps    START HERE: LocalSGD and DiLoCo
onebit         1-bit Adam
"""

from __future__ import annotations

from hvdlite.adapter.local.outer import OuterSGD
from hvdlite.adapter.strategy import Strategy
from hvdlite.jax.strategies.local_steps import DiLoCo, LocalSGD
from hvdlite.jax.strategies.onebit import OneBitAdam

__all__ = ["DiLoCo", "LocalSGD", "OneBitAdam", "OuterSGD", "Strategy"]
