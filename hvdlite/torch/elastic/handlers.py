"""How the parts of a TorchState are copied, put back and moved to other ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hvdlite.torch import functions
from hvdlite.torch.adasum import DistributedAdasum
from hvdlite.torch.elastic.copies import Copy
from hvdlite.torch.optimizer_state import broadcast_optimizer_state


class StateHandler:
    """Of one value. Derive from it for a type of your own, and put that into the registry."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        """Makes the copy to which restore() goes back."""
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    def sync(self, root_rank: int = 0) -> None:
        """Gives all ranks that of `root_rank`."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        self.value = value
        self.save()

    # ---- for step()

    def keep(self) -> None:
        """Notes what a failed step would spoil before the optimizer's first update."""

    def put_back(self) -> None:
        """Goes back to what keep() has noted."""

    def guard(self, tear: Callable[[], None]) -> bool:
        """Has `tear` called before each change that keep() does not cover. False: impossible."""
        del tear
        return True

    def reset(self) -> None:
        """The job goes on with other ranks."""


class ModelStateHandler(StateHandler):
    """Of a module. A step that fails may have changed its buffers, such as BatchNorm's."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self._copy = Copy()
        self._buffers = Copy()

    def save(self) -> None:
        self._copy.take(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self._copy.kept)

    def sync(self, root_rank: int = 0) -> None:
        functions.broadcast_parameters(self.value.state_dict(), root_rank)

    def keep(self) -> None:
        self._buffers.take(dict(self.value.named_buffers()))

    def put_back(self) -> None:
        buffers = dict(self.value.named_buffers())
        with torch.no_grad():
            for name, kept in (self._buffers.kept or {}).items():
                if name in buffers:
                    buffers[name].copy_(kept)


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
        broadcast_optimizer_state(self.value, root_rank)

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


class StateDictHandler(StateHandler):
    """Of what has a state_dict() of a few objects: samplers, schedules, scalers, cursors."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._copy = Copy()
        self._kept = Copy()

    def save(self) -> None:
        self._copy.take(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self._copy.fresh())

    def sync(self, root_rank: int = 0) -> None:
        self.value.load_state_dict(functions.broadcast_object(self.value.state_dict(), root_rank))

    def keep(self) -> None:
        self._kept.take(self.value.state_dict())

    def put_back(self) -> None:
        if self._kept.kept is not None:
            self.value.load_state_dict(self._kept.fresh())

    def reset(self) -> None:
        reset = getattr(self.value, "reset", None)
        if callable(reset):
            reset()


def has_state_dict(value: Any) -> bool:
    return all(callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict"))
