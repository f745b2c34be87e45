"""Training by given gradients with hvdlite.torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import runs
from checks.runs import SHAPES, Weights, by_weight

Optimizer = Callable[[Any], torch.optim.Optimizer]  # of parameters


class TorchRun(runs.Run):
    def __init__(
        self,
        inner: Optimizer,
        wrap: str = "DistributedOptimizer",
        *,
        mode: str = "",
        **options: Any,
    ) -> None:
        self.parameters = {
            key: torch.nn.Parameter(torch.zeros(shape)) for key, shape in SHAPES.items()
        }
        self.optimizer: Any = inner(list(self.parameters.values()))
        if wrap:
            named = list(self.parameters.items())
            self.optimizer = getattr(hvd, wrap)(self.optimizer, named_parameters=named, **options)
        self._compression = options.get("compression")

    @staticmethod
    def sgd(rate: float, momentum: float = 0.0) -> Optimizer:
        return lambda parameters: torch.optim.SGD(parameters, lr=rate, momentum=momentum)

    @staticmethod
    def adam(rate: float, weight_decay: float = 0.0) -> Optimizer:
        return lambda parameters: torch.optim.Adam(parameters, lr=rate, weight_decay=weight_decay)

    @staticmethod
    def onebit_adam(rate: float, **options: Any) -> Optimizer:
        return lambda parameters: hvd.OneBitAdam(parameters, lr=rate, **options)

    def train(self, gradients: Sequence[Weights]) -> None:
        for gradient in gradients:
            self.optimizer.zero_grad()
            self.backward(gradient)
            self.optimizer.step()

    def backward(self, gradient: Weights) -> None:
        losses = [(p * torch.from_numpy(gradient[key])).sum() for key, p in self.parameters.items()]
        sum(losses).backward()

    def weights(self) -> Weights:
        return {key: p.detach().numpy().copy() for key, p in self.parameters.items()}

    def memory(self) -> dict[str, Weights]:
        return by_weight(self._compression.state_dict()["memory"])

    def moments(self, order: int) -> Weights:
        state = {key: self.optimizer.state[p] for key, p in self.parameters.items()}
        key = "exp_avg_sq" if order == 2 else "momentum_buffer"
        return {
            name: of[key if key in of else "exp_avg"].numpy().copy() for name, of in state.items()
        }

    def sync(self) -> None:
        self.optimizer.sync()
