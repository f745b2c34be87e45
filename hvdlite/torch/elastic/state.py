"""TorchState: models, optimizers and all else that a program trains with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hvdlite.elastic.handlers import StateHandler
from hvdlite.elastic.randomness import Generator
from hvdlite.elastic.state import ObjectState, always
from hvdlite.job import basics
from hvdlite.torch import functions
from hvdlite.torch.elastic.handlers import (
    ModelStateHandler,
    OptimizerStateHandler,
    SamplerStateHandler,
)
from hvdlite.torch.elastic.sampler import ElasticSampler

__all__ = ["TorchState", "get_handler_registry", "set_handler_registry"]

_Registry = list[tuple[type, Callable[[Any], StateHandler]]]
_registry: _Registry = [
    (ElasticSampler, SamplerStateHandler),
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
]


def get_handler_registry() -> _Registry:
    """The handlers by type. The first that fits is taken."""
    return _registry


def set_handler_registry(registry: _Registry) -> None:
    global _registry
    _registry = registry


def _random_states() -> tuple[torch.Tensor, torch.Tensor | None]:
    """Of the host and of this rank's GPU, if the program uses one."""
    uses_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.get_rng_state(), torch.cuda.get_rng_state() if uses_gpu else None


def _set_random_states(states: tuple[torch.Tensor, torch.Tensor | None]) -> None:
    torch.set_rng_state(states[0])
    if states[1] is not None:
        torch.cuda.set_rng_state(states[1])


class TorchState(ObjectState):
    """Keywords are attributes: modules, optimizers, what has a state_dict(), and objects.

    `copies="always"` makes `step()` copy everything each time.
    """

    def __init__(self, model: torch.nn.Module | None = None,
                 optimizer: torch.optim.Optimizer | None = None, *, copies: str = "auto",
                 **kwargs: Any) -> None:  # fmt: skip
        copies_always = always(copies)
        given = {"model": model, "optimizer": optimizer, **kwargs}
        super().__init__(functions.broadcast_object, basics.rank, **given)
        self._copies_always = self._copies_always or copies_always

    def _generators(self) -> Sequence[Generator]:
        return [*super()._generators(), Generator(_random_states, _set_random_states)]

    def _is_out_of_memory(self, error: Exception) -> bool:
        """On the host torch raises RuntimeError, and says so."""
        words = ("out of memory", "can't allocate memory", "not enough memory")
        torchs = isinstance(error, RuntimeError) and any(said in str(error) for said in words)
        return torchs or super()._is_out_of_memory(error)

    def _handler_of(self, value: Any) -> StateHandler | None:
        found = next((handler for kind, handler in _registry if isinstance(value, kind)), None)
        return found(value) if found else super()._handler_of(value)
