"""LARS and LAMB: each layer's learning rate follows the ratio of its weights to its gradient.

They are plain optimizers. In hvd.DistributedOptimizer() their norms are those of the reduced
gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Exclude = Callable[[torch.Tensor], bool]


def _is_bias_or_norm(parameter: torch.Tensor) -> bool:
    """Biases, and the scales and shifts of norm layers, have one dimension."""
    return parameter.dim() <= 1


class _LayerWise(torch.optim.Optimizer):
    """Groups with `adapt=False`, and parameters that `exclude` names, have the plain learning rate
    and no weight decay."""

    def __init__(self, params: Any, defaults: dict[str, Any], exclude: Exclude | None) -> None:
        _check(defaults)
        self._hvd_exclude = exclude or _is_bias_or_norm
        super().__init__(params, {**defaults, "adapt": True})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As the base class'. A group's `adapt` becomes a list, with an entry per parameter."""
        super().add_param_group(param_group)
        exclude = self.__dict__.get("_hvd_exclude", _is_bias_or_norm)  # a pickle has none
        group = self.param_groups[-1]
        group["adapt"] = [bool(group["adapt"]) and not exclude(p) for p in group["params"]]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One optimization step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter, adapt in zip(group["params"], group["adapt"], strict=True):
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group, adapt)
        return loss

    def _update(
        self, parameter: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any], adapt: bool
    ) -> None:
        raise NotImplementedError


class LARS(_LayerWise):
    """SGD with momentum for large batches (https://arxiv.org/abs/1708.03888).

    The learning rate of a layer is multiplied by trust * |w| / (|g| + weight_decay * |w|).
    `exclude` says which parameters have the plain rate and no weight decay: by default those of one
    dimension, which are biases and norm layers.
    """

    def __init__(self, params: Any, lr: float, momentum: float = 0.9, weight_decay: float = 0.0,
                 trust: float = 0.001, nesterov: bool = False,
                 exclude: Exclude | None = None) -> None:  # fmt: skip
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust,
                    "nesterov": nesterov}  # fmt: skip
        super().__init__(params, defaults, exclude)

    def _update(
        self, parameter: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any], adapt: bool
    ) -> None:
        way = gradient
        if adapt:
            decay = group["weight_decay"]
            weights, slope = parameter.norm(), gradient.norm()
            rate = group["trust"] * weights / (slope + decay * weights)
            usable = (weights > 0) & (slope > 0)
            way = (gradient + decay * parameter) * torch.where(usable, rate, 1.0)
        way = way * group["lr"]
        if group["momentum"]:
            state = self.state[parameter]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(parameter)
            velocity = state["momentum_buffer"]
            velocity.mul_(group["momentum"]).add_(way)
            way = way + group["momentum"] * velocity if group["nesterov"] else velocity
        parameter.sub_(way)


class LAMB(_LayerWise):
    """Adam for large batches (https://arxiv.org/abs/1904.00962).

    The learning rate of a layer is multiplied by |w| / |r|, where r is Adam's step with weight
    decay. `exclude` as in LARS.
    """

    def __init__(self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-6, weight_decay: float = 0.01,
                 exclude: Exclude | None = None) -> None:  # fmt: skip
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults, exclude)

    def _update(
        self, parameter: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any], adapt: bool
    ) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        step, (first, second) = float(state["step"]), group["betas"]
        state["exp_avg"].lerp_(gradient, 1 - first)
        state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        spread = (state["exp_avg_sq"] / (1 - second**step)).sqrt_().add_(group["eps"])
        way = state["exp_avg"] / (1 - first**step) / spread
        if adapt:
            way = way + group["weight_decay"] * parameter
            weights, slope = parameter.norm(), way.norm()
            way = way * torch.where((weights > 0) & (slope > 0), weights / slope, 1.0)
        parameter.sub_(way * group["lr"])


def _check(options: dict[str, Any]) -> None:
    for name in ("lr", "momentum", "weight_decay", "trust", "eps"):
        if options.get(name, 0.0) < 0:
            raise ValueError(f"{name}={options[name]!r} is not possible: it must not be negative")
    if options.get("nesterov") and not options["momentum"]:
        raise ValueError("nesterov=True needs momentum")
    if not all(0.0 <= beta < 1.0 for beta in options.get("betas", ())):
        raise ValueError(f"betas={options['betas']!r} is not possible: both must be below 1")
