"""Training by given gradients with hvdlite.torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import runs
from checks.runs import SHAPES, Weights, by_weight
from hvdlite.adapter.local.schedule import Count

Optimizer = Callable[[Any], torch.optim.Optimizer]  # of parameters


class TorchRun(runs.Run):
    tolerance = 1e-11

    def __init__(
        self,
        inner: Optimizer,
        wrap: str = "DistributedOptimizer",
        *,
        mode: str = "",
        widest: bool = False,
        **options: Any,
    ) -> None:
        dtype = torch.float64 if widest else torch.float32
        self.parameters = {
            key: torch.nn.Parameter(torch.zeros(shape, dtype=dtype))
            for key, shape in SHAPES.items()
        }
        self.optimizer: Any = inner(list(self.parameters.values()))
        if wrap:
            named = list(self.parameters.items())
            self.optimizer = getattr(hvd, wrap)(self.optimizer, named_parameters=named, **options)
        self._compression = options.get("compression")
        strategy = options.get("strategy")
        self._passes = options.get("backward_passes_per_step") or (
            strategy.backward_passes_per_step if strategy else 1
        )

    @staticmethod
    def sgd(rate: float, momentum: float = 0.0, nesterov: bool = False) -> Optimizer:
        return lambda parameters: torch.optim.SGD(
            parameters, lr=rate, momentum=momentum, nesterov=nesterov
        )

    @staticmethod
    def adam(rate: float, weight_decay: float = 0.0) -> Optimizer:
        return lambda parameters: torch.optim.Adam(parameters, lr=rate, weight_decay=weight_decay)

    @staticmethod
    def onebit_adam(rate: float, **options: Any) -> Optimizer:
        return lambda parameters: hvd.OneBitAdam(parameters, lr=rate, **options)

    @staticmethod
    def lars(rate: float) -> Optimizer:
        return lambda p: hvd.LARS(p, lr=rate, momentum=0.9, weight_decay=0.01, trust=0.1)

    @staticmethod
    def lamb(rate: float) -> Optimizer:
        return lambda parameters: hvd.LAMB(parameters, lr=rate, weight_decay=0.01)

    def train(self, gradients: Sequence[Weights], samples: float = 1.0) -> None:
        for number, gradient in enumerate(gradients, 1):
            self.backward(gradient)
            if number % self._passes == 0:
                if samples != 1.0:
                    self.optimizer.note(samples=samples)
                self.optimizer.step()
                self.optimizer.zero_grad()

    def backward(self, gradient: Weights) -> None:
        losses = [
            (p * torch.as_tensor(gradient[key], dtype=p.dtype)).sum()
            for key, p in self.parameters.items()
        ]
        sum(losses).backward()

    def weights(self) -> Weights:
        return {key: p.detach().numpy().copy() for key, p in self.parameters.items()}

    def memory(self) -> dict[str, Weights]:
        return by_weight(self._compression)

    def moments(self, order: int) -> Weights:
        state = {key: self.optimizer.state[p] for key, p in self.parameters.items()}
        key = "exp_avg_sq" if order == 2 else "momentum_buffer"
        return {
            name: of[key if key in of else "exp_avg"].numpy().copy() for name, of in state.items()
        }

    def sync(self) -> None:
        self.optimizer.sync()

    def count(self) -> Count:
        return self.optimizer._hvd_local_steps._count  # type: ignore[no-any-return]

    def outer(self) -> dict[str, Any]:
        (group,) = self.optimizer.state_dict()["param_groups"]
        pairs = (
            tuple(each.numpy().copy() for each in pair)
            for pair in group["local_steps"]["outer"].values()
        )
        return dict(zip(SHAPES, pairs, strict=True))
