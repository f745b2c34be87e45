"""The learning rate of a large job, as a schedule of torch."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from hvdlite.adapter import warm_up
from hvdlite.job import basics


class LinearWarmUp(torch.optim.lr_scheduler.LambdaLR):
    """Raises the learning rate step by step from the optimizer's, which is that of one rank, to
    `scale` times as much (https://arxiv.org/abs/1706.02677).

    Call its step() after each step of the optimizer. `scale` is the number of ranks unless you say
    otherwise, also when an elastic job grows or shrinks.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, steps: int, scale: float | None = None
    ) -> None:
        super().__init__(optimizer, partial(_factor, steps=steps, scale=scale))


def _factor(step: int, steps: int, scale: float | None) -> float:
    most = float(basics.size() if scale is None else scale)
    return float(warm_up.factor(step, steps, most, np))
