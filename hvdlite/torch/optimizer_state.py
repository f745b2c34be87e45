"""An optimizer's state: from one rank to all others, and between an optimizer and the one that
wraps it.

The root describes its state: everything but the tensors' contents. The others build the same out of
what they have, and the contents follow, in place. So it does not matter which optimizer it is, how
deep its state is, or which ranks have made a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from hvdlite.adapter.containers import mapped
from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.core.engine import is_root
from hvdlite.torch.ops import OPS


@dataclass(frozen=True)
class _Described:
    """A tensor without its contents."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    on_host: bool  # a counter on the CPU stays there although the parameter is on a device


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None
) -> None:
    """Gives all ranks the optimizer state and the options (learning rate, ...) of `root_rank`.

    `model` is accepted for Horovod's sake. Parameters without a gradient get one of zeros if the
    optimizer has made no step here, as in Horovod.
    """
    del model
    if not optimizer.state:
        for parameter in _parameters(optimizer):
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
    broadcast(optimizer, root_rank)


def broadcast(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """The same, and gradients stay as they are."""
    _refuse_lbfgs(optimizer)
    tensors: list[torch.Tensor] = []
    sends = is_root(root_rank)
    described = _describe(optimizer, tensors) if sends else None
    described = broadcast_object(described, root_rank, "broadcast_optimizer_state")
    if not sends:
        tensors = _rebuild(optimizer, described)
    names = [f"broadcast_optimizer_state.{i}" for i in range(len(tensors))]
    OPS.broadcast_all(tensors, names, root_rank, in_place=True)
    getattr(optimizer, "_hvd_adopt", bool)()


def _refuse_lbfgs(optimizer: torch.optim.Optimizer) -> None:
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(
            "cannot broadcast torch.optim.LBFGS state: it depends on the closure of each rank"
        )


class Containers:
    """The groups and the state of an optimizer, which stay where others look for them when it loads
    a checkpoint.

    torch puts others in their place. Then a schedule that was made before the optimizer was wrapped
    would go on with what no longer trains anything.
    """

    def __init__(self, optimizer: Any) -> None:
        self._groups: list[dict[str, Any]] = optimizer.__dict__["param_groups"]
        self._state: dict[Any, Any] = optimizer.__dict__["state"]

    def take_from(self, optimizer: Any) -> None:
        """Gets what the optimizer has loaded, and takes its place there."""
        groups, state = optimizer.__dict__["param_groups"], optimizer.__dict__["state"]
        if groups is not self._groups:
            for mine, loaded in zip(self._groups, groups, strict=False):
                if mine is not loaded:
                    mine.clear()
                    mine.update(loaded)
            self._groups[:] = [*self._groups[: len(groups)], *groups[len(self._groups) :]]
            optimizer.__dict__["param_groups"] = self._groups
        if state is not self._state:
            self._state.clear()
            self._state.update(state)
            optimizer.__dict__["state"] = self._state


def share(optimizer: torch.optim.Optimizer) -> None:
    """Has an optimizer keep its containers when it loads a checkpoint itself, where torch tells
    when that is."""
    register = getattr(optimizer, "register_load_state_dict_post_hook", None)
    if register is not None and not optimizer.__dict__.get("_hvd_shares"):
        optimizer.__dict__["_hvd_shares"] = True
        register(Containers(optimizer).take_from, prepend=True)


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _describe(optimizer: torch.optim.Optimizer, tensors: list[torch.Tensor]) -> Any:
    """The root's side. `tensors` gets what the description leaves out, in its order."""
    number_of = {id(p): i for i, p in enumerate(_parameters(optimizer))}

    def described(value: Any, _: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.layout != torch.strided:
            raise ValueError("sparse tensors in an optimizer's state cannot be broadcast")
        tensors.append(value.detach())
        return _Described(tuple(value.shape), value.dtype, value.is_cpu)

    state = {
        number_of.get(id(key), key): mapped(value, described)
        for key, value in optimizer.state.items()
    }
    groups = [
        {k: mapped(v, described) for k, v in group.items() if k != "params"}
        for group in optimizer.param_groups
    ]
    return {"parameters": len(number_of), "state": state, "groups": groups}


def _rebuild(optimizer: torch.optim.Optimizer, described: Any) -> list[torch.Tensor]:
    """The other ranks' side: makes the state as described; returns the tensors whose contents are
    to come."""
    parameters = _parameters(optimizer)
    if described["parameters"] != len(parameters) or len(described["groups"]) != len(
        optimizer.param_groups
    ):
        raise ValueError(
            f"the root's optimizer has {described['parameters']} parameters in "
            f"{len(described['groups'])} groups, this rank's {len(parameters)} in "
            f"{len(optimizer.param_groups)}: build the same model and optimizer on all ranks"
        )
    tensors: list[torch.Tensor] = []

    def built(like: torch.Tensor | None, value: Any, own: Any) -> Any:
        if not isinstance(value, _Described):
            return value
        same = (
            isinstance(own, torch.Tensor)
            and tuple(own.shape) == value.shape
            and own.dtype == value.dtype
        )
        if not same:
            device = None if value.on_host or like is None else like.device
            own = torch.empty(value.shape, dtype=value.dtype, device=device)
        tensors.append(own.detach())
        return own

    state = {}
    for key, value in described["state"].items():
        parameter = parameters[key] if isinstance(key, int) else None
        own_key = key if parameter is None else parameter
        state[own_key] = mapped(value, partial(built, parameter), optimizer.state.get(own_key))
    optimizer.state.clear()
    optimizer.state.update(state)
    for group, told in zip(optimizer.param_groups, described["groups"], strict=True):
        for key in told:
            group[key] = mapped(told[key], partial(built, None), group.get(key))
    return tensors
