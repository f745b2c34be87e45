"""Training that sends less, or takes larger batches, than averaging each step's gradients.

local_steps    START HERE: LocalSGD and DiLoCo
averaging      when ranks average their weights, and how
large_batch    LARS, LAMB, a warm-up of the learning rate, clipping
"""

from __future__ import annotations

from hvdlite.adapter.local.outer import OuterSGD
from hvdlite.adapter.strategy import Strategy
from hvdlite.torch.strategies.large_batch import LAMB, LARS, LinearWarmUp, clip_grad_norm_
from hvdlite.torch.strategies.local_steps import DiLoCo, LocalSGD

__all__ = [
    "LAMB", "LARS", "DiLoCo", "LinearWarmUp", "LocalSGD", "OuterSGD", "Strategy",
    "clip_grad_norm_",
]  # fmt: skip
