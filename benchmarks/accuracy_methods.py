"""The methods of benchmarks/accuracy, each a row of its table.

The task and its numbers are those of a simulation in one process: 1437 images, 4 ranks with 16
each, a network 64-256-256-10, and SGD with momentum whose rate follows a cosine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import hvdlite.torch as hvd

RANKS = 4
Make = Callable[[Any, list[tuple[str, Any]]], Any]


@dataclass(frozen=True)
class Method:
    name: str
    make: Make
    epochs: int = 60
    batch: int = 16  # of a rank
    lr: float = 0.1
    simulated: float | None = None  # what the simulation reached
    least: float | None = None  # what is asked for
    warm_up_epochs: int = 0


def sgd(parameters: Any, lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def synchronous(parameters: Any, named: Any) -> Any:
    return hvd.DistributedOptimizer(sgd(parameters), named)


def local(every: int, **how: Any) -> Make:
    return lambda parameters, named: hvd.LocalSGD(
        sgd(parameters), every, named_parameters=named, **how
    )


def diloco(every: int, **how: Any) -> Make:
    return lambda parameters, named: hvd.DiLoCo(
        sgd(parameters), every=every, named_parameters=named, **how
    )


def lars(parameters: Any, named: Any) -> Any:
    """Biases, which LARS leaves out, have a rate of 0.1."""
    everything = list(parameters)
    groups = [
        {"params": [p for p in everything if p.dim() > 1]},
        {"params": [p for p in everything if p.dim() == 1], "scale": 0.1 / 3.0},
    ]
    return hvd.DistributedOptimizer(hvd.LARS(groups, lr=3.0, trust=0.01, nesterov=True), named)


def plain(lr: float) -> Make:
    return lambda parameters, named: hvd.DistributedOptimizer(sgd(parameters, lr), named)


LARGE = {"epochs": 15, "batch": 704 // RANKS}

METHODS = (
    Method("synchronous", synchronous, simulated=98.67),
    Method("synchronous, 6 epochs", synchronous, epochs=6, simulated=98.28),
    Method("LocalSGD, every 4", local(4), simulated=98.56),
    Method("LocalSGD, every 16", local(16), simulated=98.67, least=97.9),
    Method("LocalSGD, every 16, 6 epochs", local(16), epochs=6, simulated=98.00),
    Method("LocalSGD, every 16, momentum averaged", local(16, momentum="average")),
    Method("LocalSGD, every 16, 110 synchronous steps before", local(16, start=110)),
    Method("LocalSGD, every 16, adaptive", local(16, adaptive=True)),
    Method("DiLoCo, every 22", diloco(22), simulated=95.86),
    Method("DiLoCo, every 22, momentum reset", diloco(22, momentum="reset"), simulated=97.39),
    Method("DiLoCo, every 22, 2 fragments, overlap 4", diloco(22, fragments=2, overlap=4)),
    Method("batch 704: SGD, rate 0.4", plain(0.4), lr=0.4, simulated=96.83, **LARGE),
    Method("batch 704: SGD, rate 0.8", plain(0.8), lr=0.8, simulated=63.3, **LARGE),
    Method(
        "batch 704: SGD, rate 0.8, warm-up over 5 epochs", plain(0.8), lr=0.8, simulated=95.1,
        warm_up_epochs=5, **LARGE,
    ),
    Method("batch 704: LARS, rate 3", lars, lr=3.0, least=97.3, **LARGE),
)  # fmt: skip
