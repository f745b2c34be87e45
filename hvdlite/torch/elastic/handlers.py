"""How the parts of a TorchState are copied, put back and moved to other ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hvdlite.elastic.description import SAMPLE, checksum
from hvdlite.elastic.handlers import StateDictHandler, StateHandler
from hvdlite.torch import functions, optimizer_state
from hvdlite.torch.adasum import DistributedAdasum
from hvdlite.torch.elastic.copies import Copy
from hvdlite.torch.framework import sample
from hvdlite.torch.strategies.own import is_own


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
        optimizer_state.broadcast(self.value, root_rank)

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
        if distributed is not None:  # what was under way will never meet its like
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
