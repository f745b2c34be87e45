"""How the parts of a TorchState are copied, put back and moved to other ranks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from operator import is_
from typing import Any

import torch

from hvdlite.adapter.containers import mapped
from hvdlite.elastic.handlers import SAMPLE, StateDictHandler, StateHandler, checksum
from hvdlite.torch import distributed_optimizer, functions
from hvdlite.torch.adasum import DistributedAdasum
from hvdlite.torch.framework import sample
from hvdlite.torch.replicas import is_own


class ModelStateHandler(StateHandler):
    """Of a module. A step that fails may have changed its buffers, such as BatchNorm's."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self._copy = Copy()
        self._buffers = Copy()
        self._owners: list[dict[str, torch.Tensor | None]] = []

    def save(self) -> None:
        self._copy.take(self.value.state_dict())
        # Looking for the modules that have buffers takes as long as copying the buffers.
        self._owners = [module._buffers for module in self.value.modules() if module._buffers]
        if self._buffers.kept is not None:
            self.keep()

    def restore(self) -> None:
        self.value.load_state_dict(self._copy.kept)

    def sync(self, root_rank: int = 0) -> None:
        functions.broadcast_parameters(self.value.state_dict(), root_rank)

    def form(self) -> dict[str, str]:
        return {name: _form(value) for name, value in self.value.state_dict().items()}

    def fingerprints(self) -> dict[str, str]:
        """Of the parameters: a rank's buffers, such as BatchNorm's, may be its own."""
        return dict(
            _fingerprint(name, value)
            for name, value in self.value.named_parameters()
            if _is_replicated(value)
        )

    def keep(self) -> None:
        self._buffers.take_all(self._present())

    def put_back(self) -> None:
        with torch.no_grad():
            for buffer, kept in zip(self._present(), self._buffers.kept or (), strict=False):
                buffer.copy_(kept)

    def _present(self) -> list[torch.Tensor]:
        return [b for owner in self._owners for b in owner.values() if b is not None]


class OptimizerStateHandler(StateHandler):
    """Of an optimizer, distributed or not."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer)
        self._copy = Copy()

    def save(self) -> None:
        self._copy.take(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self._copy.fresh())

    def sync(self, root_rank: int = 0) -> None:
        distributed_optimizer.broadcast(self.value, root_rank)

    def form(self) -> dict[str, str]:
        groups = [len(group["params"]) for group in self.value.param_groups]
        return {"parameters by group": str(groups)}

    def fingerprints(self) -> dict[str, str]:
        """Of what the optimizer knows of each parameter. With Adasum that is the rank's own."""
        if isinstance(self.value, DistributedAdasum):
            return {}
        found: dict[str, str] = {}
        parameters = [p for group in self.value.param_groups for p in group["params"]]
        for number, parameter in enumerate(parameters):
            known = self.value.state.get(parameter, {})
            for name, value in known.items() if _is_replicated(parameter) else ():
                if isinstance(value, torch.Tensor):
                    found.update([_fingerprint(f"{name} of parameter {number}", value)])
        return found

    def guard(self, tear: Callable[[], None]) -> bool:
        register = getattr(self.value, "register_step_pre_hook", None)
        if register is None or isinstance(self.value, DistributedAdasum):
            return False
        register(lambda *_: tear())
        return True

    def reset(self) -> None:
        distributed = getattr(self.value, "_hvd", None)
        if distributed is not None:  # what was under way will never find its like
            distributed.forget()
        for group in self.value.param_groups:
            for parameter in group["params"]:
                _drop_gradient(parameter)


class SamplerStateHandler(StateDictHandler):
    """Of an ElasticSampler, which deals what is left of the epoch anew."""

    def reset(self) -> None:
        self.value.reset()


def _drop_gradient(parameter: torch.Tensor) -> None:
    """A failed step leaves gradients of some passes, or sums of some ranks. A newcomer has none.

    The next one is allocated where the ranks that there are now share it.
    """
    if parameter.grad is not None and parameter.grad.layout == torch.strided:
        parameter.grad = None
    elif parameter.grad is not None:  # an empty one goes on telling that they are sparse
        parameter.grad = parameter.grad.detach().zero_()


def _form(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _is_replicated(parameter: torch.Tensor) -> bool:
    """Whether all ranks update it to the same bits. On a GPU, sparse gradients are added in any
    order."""
    if is_own(parameter):
        return False
    sparse = parameter.grad is not None and parameter.grad.layout != torch.strided
    return parameter.layout == torch.strided and not sparse


def _fingerprint(name: str, value: torch.Tensor) -> tuple[str, str]:
    first = sample(value, SAMPLE)[: SAMPLE * value.element_size()]
    where = f" on {torch.cuda.get_device_name(value.device)}" if value.is_cuda else ""
    return name + where, checksum([first])


# ---- copies of containers of tensors, whose memory is allocated once


class Copy:
    """A copy of what state_dict() returns."""

    def __init__(self) -> None:
        self.kept: Any = None  # belongs to this object, and is not to be changed
        self._tensors: list[torch.Tensor] = []  # of which take_all() has made it

    def take(self, value: Any) -> None:
        with torch.no_grad():
            self.kept = mapped(value, _copied, self.kept)

    def take_all(self, tensors: list[torch.Tensor]) -> None:
        """Takes microseconds if these are the same objects as before."""
        before, self._tensors = self._tensors, tensors
        if not before or len(before) != len(tensors) or not all(map(is_, before, tensors)):
            return self.take(tensors)
        with torch.no_grad():
            torch._foreach_copy_(self.kept, tensors)
        return None

    def fresh(self) -> Any:
        """A copy of the copy, for an object that keeps the tensors that it loads."""
        with torch.no_grad():
            return mapped(self.kept, _copied)


def _copied(value: Any, own: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _tensor(value.detach(), own)
    return copy.deepcopy(value)


def _tensor(value: torch.Tensor, own: Any) -> torch.Tensor:
    """In host memory: on a GPU a second copy of the weights would often not fit."""
    if value.layout != torch.strided:
        return value.clone()
    fits = isinstance(own, torch.Tensor) and own.shape == value.shape and own.dtype == value.dtype
    if not fits:
        own = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
    own.copy_(value)
    return own
