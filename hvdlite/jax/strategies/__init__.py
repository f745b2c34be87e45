"""Ways to train that send less, or take larger batches, than averaging each step's gradients."""

from __future__ import annotations

from hvdlite.adapter.outer import OuterSGD
from hvdlite.adapter.strategy import Strategy
from hvdlite.jax.strategies.local_steps import DiLoCo, LocalSGD
from hvdlite.jax.strategies.onebit import OneBitAdam
from hvdlite.jax.strategies.warm_up import linear_warm_up

__all__ = ["DiLoCo", "LocalSGD", "OneBitAdam", "OuterSGD", "Strategy", "linear_warm_up"]
