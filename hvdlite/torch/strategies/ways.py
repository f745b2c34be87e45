"""What torch has for the parts of a hvd.Strategy."""

from __future__ import annotations

from typing import Any

import torch

from hvdlite.adapter.strategy import Ways
from hvdlite.adapter.strategy.choice import Choice
from hvdlite.adapter.strategy.large_batch import Place, taker
from hvdlite.torch.compression import Compression
from hvdlite.torch.distributed_optimizer import refuse_twice
from hvdlite.torch.strategies.large_batch import LAMB, LARS
from hvdlite.torch.strategies.local_steps import DiLoCo, LocalSGD

_PLACES = {
    "lars": Place(LARS, (torch.optim.SGD,), ("dampening", "maximize")),
    "lamb": Place(LAMB, (torch.optim.Adam, torch.optim.AdamW), ("amsgrad", "maximize")),
}


def _large_batch(optimizer: Any, choice: Choice) -> Any:
    """With the same groups: a schedule that has been made already changes them."""
    refuse_twice(optimizer)
    groups = optimizer.param_groups
    kind = taker(choice, optimizer, _PLACES, groups, has_trained=bool(optimizer.state))
    for group in groups:
        group.update(dict(choice.options))
    return kind(groups, lr=optimizer.defaults["lr"])


WAYS = Ways("hvdlite.torch", Compression, {"local_sgd": LocalSGD, "diloco": DiLoCo}, _large_batch)
