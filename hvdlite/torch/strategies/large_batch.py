"""What large batches need: LARS and LAMB, a warm-up of the learning rate, and clipping.

In LARS and LAMB each layer's learning rate follows the ratio of its weights to its gradient. They
are plain optimizers. In hvd.DistributedOptimizer() their norms are those of the reduced gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch

from hvdlite.adapter.local import warm_up
from hvdlite.adapter.strategy.options import Choice
from hvdlite.adapter.strategy.support import Replacement, chosen_replacement
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Max, Sum
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.job import basics
from hvdlite.torch.distributed_optimizer import Distributed, refuse_twice
from hvdlite.torch.ops import OPS

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
        update = gradient
        if adapt:
            decay = group["weight_decay"]
            weights, slope = parameter.norm(), gradient.norm()
            rate = group["trust"] * weights / (slope + decay * weights)
            usable = (weights > 0) & (slope > 0)
            update = (gradient + decay * parameter) * torch.where(usable, rate, 1.0)
        update = update * group["lr"]
        if group["momentum"]:
            state = self.state[parameter]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(parameter)
            velocity = state["momentum_buffer"]
            velocity.mul_(group["momentum"]).add_(update)
            update = update + group["momentum"] * velocity if group["nesterov"] else velocity
        parameter.sub_(update)


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
        update = state["exp_avg"] / (1 - first**step) / spread
        if adapt:
            update = update + group["weight_decay"] * parameter
            weights, slope = parameter.norm(), update.norm()
            update = update * torch.where((weights > 0) & (slope > 0), weights / slope, 1.0)
        parameter.sub_(update * group["lr"])


def _check(options: dict[str, Any]) -> None:
    for name in ("lr", "momentum", "weight_decay", "trust", "eps"):
        if options.get(name, 0.0) < 0:
            raise ValueError(f"{name}={options[name]!r} is not possible: it must not be negative")
    if options.get("nesterov") and not options["momentum"]:
        raise ValueError("nesterov=True needs momentum")
    if not all(0.0 <= beta < 1.0 for beta in options.get("betas", ())):
        raise ValueError(f"betas={options['betas']!r} is not possible: both must be below 1")


_REPLACEMENTS = {
    "lars": Replacement(LARS, (torch.optim.SGD,), ("dampening", "maximize")),
    "lamb": Replacement(LAMB, (torch.optim.Adam, torch.optim.AdamW), ("amsgrad", "maximize")),
}


def replacement(optimizer: Any, choice: Choice) -> Any:
    """The optimizer that a strategy puts in the place of another one. It has the same groups: a
    schedule that exists already changes them."""
    refuse_twice(optimizer)
    groups = optimizer.param_groups
    kind = chosen_replacement(
        choice, optimizer, _REPLACEMENTS, groups, has_trained=bool(optimizer.state)
    )
    for group in groups:
        group.update(dict(choice.options))
    return kind(groups, lr=optimizer.defaults["lr"])


# ---- the learning rate of a large job


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


# ---- clipping by the norm of all gradients, where these are those of all ranks

_FLOOR = 1e-6  # as torch.nn.utils.clip_grad_norm_


def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0,
                    sharded: bool = False,
                    process_set: ProcessSet = global_process_set) -> torch.Tensor:  # fmt: skip
    """Scales gradients in place so that the norm of all of them together is at most `max_norm`;
    returns the norm that it was.

    `parameters`: a DistributedOptimizer, whose gradients are reduced first (step() does not reduce
    them again), or parameters, or one. Reduced gradients are the same on all ranks, so nothing is
    sent. With `sharded` each rank has another part of the gradients, and one number is summed over
    the ranks of `process_set`.
    """
    gradients = [p.grad for p in _reduced(parameters) if p.grad is not None]
    norm_type = float(norm_type)
    with torch.no_grad():
        norm = _norm(gradients, norm_type)
        if sharded:
            norm = _over_all(norm, norm_type, process_set)
        factor = torch.clamp(max_norm / (norm + _FLOOR), max=1.0)
        for device in {gradient.device for gradient in gradients}:
            here = [gradient for gradient in gradients if gradient.device == device]
            torch._foreach_mul_(here, factor.to(device))
    return norm


def _reduced(parameters: Any) -> Iterable[torch.Tensor]:
    if isinstance(parameters, torch.Tensor):
        return [parameters]
    if not isinstance(parameters, torch.optim.Optimizer):
        return list(parameters)
    if isinstance(parameters, Distributed) and not parameters._hvd.synchronized:
        parameters._hvd.synchronize_once(None)
    groups: list[dict[str, Any]] = parameters.__dict__["param_groups"]
    return [parameter for group in groups for parameter in group["params"]]


def _norm(gradients: list[torch.Tensor], norm_type: float) -> torch.Tensor:
    if not gradients:
        return torch.zeros(())
    norms = torch._foreach_norm(gradients, norm_type)
    together = torch.stack([norm.to(norms[0].device) for norm in norms])
    return torch.linalg.vector_norm(together, norm_type)


def _over_all(norm: torch.Tensor, norm_type: float, process_set: ProcessSet) -> torch.Tensor:
    """The norm of a vector from those of its parts."""
    mine = norm.double()
    if norm_type == float("inf"):
        return OPS.run_one(mine, ALLREDUCE, "clip_grad_norm", process_set, Max).to(norm.dtype)
    total = OPS.run_one(mine**norm_type, ALLREDUCE, "clip_grad_norm", process_set, Sum)
    return (total ** (1.0 / norm_type)).to(norm.dtype)
