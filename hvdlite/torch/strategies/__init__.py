"""Ways to train that send less, or take larger batches, than averaging each step's gradients."""

from __future__ import annotations

from hvdlite.adapter.outer import OuterSGD
from hvdlite.adapter.strategy import Strategy
from hvdlite.torch.strategies.clipping import clip_grad_norm_
from hvdlite.torch.strategies.large_batch import LAMB, LARS
from hvdlite.torch.strategies.local_steps import DiLoCo, LocalSGD
from hvdlite.torch.strategies.warm_up import LinearWarmUp

__all__ = [
    "LAMB", "LARS", "DiLoCo", "LinearWarmUp", "LocalSGD", "OuterSGD", "Strategy",
    "clip_grad_norm_",
]  # fmt: skip
