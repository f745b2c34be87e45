"""TorchState: models, optimizers and all else that a program trains with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hvdlite.elastic.state import ObjectState
from hvdlite.job import basics
from hvdlite.torch import functions
from hvdlite.torch.elastic.handlers import (
    ModelStateHandler,
    OptimizerStateHandler,
    StateDictHandler,
    StateHandler,
    has_state_dict,
)

__all__ = ["TorchState", "get_handler_registry", "set_handler_registry"]

_Registry = list[tuple[type, Callable[[Any], StateHandler]]]
_registry: _Registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
]
_COPIES = ("auto", "always")


def get_handler_registry() -> _Registry:
    """The handlers by type. The first that fits is taken."""
    return _registry


def set_handler_registry(registry: _Registry) -> None:
    global _registry
    _registry = registry


class TorchState(ObjectState):
    """Keywords are attributes: modules, optimizers, what has a state_dict(), and objects.

    `copies="always"` makes `step()` copy everything each time.
    """

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        copies: str = "auto",
        **kwargs: Any,
    ) -> None:
        if copies not in _COPIES:
            raise ValueError(f"copies={copies!r} is not possible: expected 'auto' or 'always'")
        given = {"model": model, "optimizer": optimizer, **kwargs}
        handlers = {name: _handler_of(value) for name, value in given.items()}
        self._handlers = {name: found for name, found in handlers.items() if found is not None}
        objects = {name: value for name, value in given.items() if name not in self._handlers}
        for name, handler in self._handlers.items():
            self.__dict__[name] = handler.value
        super().__init__(functions.broadcast_object, basics.rank, **objects)
        guarded = [handler.guard(self._marks.tear) for handler in self._handlers.values()]
        self._copies_always = copies == "always" or not all(guarded)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None and handler.value is not value:
            handler.set_value(value)
            handler.guard(self._marks.tear)

    def restore(self) -> None:
        super().restore()
        for handler in self._handlers.values():
            handler.restore()

    def reset(self) -> None:
        for handler in self._handlers.values():
            handler.reset()

    def _make_copy(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super()._make_copy()

    def _keep(self) -> None:
        super()._keep()
        if self._marks.steps:
            for handler in self._handlers.values():
                handler.keep()

    def _put_back_kept(self) -> None:
        super()._put_back_kept()
        for handler in self._handlers.values():
            handler.put_back()

    def _receive(self, root: int) -> None:
        super()._receive(root)
        for handler in self._handlers.values():
            handler.sync(root) if root else handler.sync()


def _handler_of(value: Any) -> StateHandler | None:
    for kind, handler in _registry:
        if isinstance(value, kind):
            return handler(value)
    return StateDictHandler(value) if has_state_dict(value) else None
