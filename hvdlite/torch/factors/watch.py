"""Sees which linear layers a step goes through, and with how many rows."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook

from hvdlite.adapter.factors import NOTHING, Seen
from hvdlite.torch import traced
from hvdlite.torch.factors.linear import FactoredLinear
from hvdlite.torch.gradients import GRADIENTS


class Watch:
    """Of one optimizer, until stop() or the optimizer's end. `numbers`: those of its parameters, by
    id()."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self._numbers = numbers
        self.layers: dict[int, torch.nn.Linear] = {}
        self._users: dict[int, dict[int, torch.nn.Module]] = {}  # modules, by id()
        self._passes: dict[int, list[Seen]] = {}  # backward passes
        hook = partial(_has_run, weakref.ref(self))  # torch would keep the watch for ever
        self.stop = weakref.finalize(self, register_module_forward_hook(hook).remove)

    def seen(self, number: int) -> Seen:
        """What there was of a parameter."""
        passes = self._passes.get(number)
        if not passes:
            return NOTHING
        if len(self._users[number]) > 1:
            return passes[0]._replace(problem="several modules share it")
        if GRADIENTS.has_other_hooks(self.layers[number].weight):
            return passes[0]._replace(problem="it has a hook, which needs the gradient")
        if len(passes) > 1:
            return passes[0]._replace(problem=f"its layer runs {len(passes)} times in a step")
        return passes[0]

    def has_run(self, module: torch.nn.Module, output: Any) -> None:
        """A module has."""
        for name, parameter in module._parameters.items():
            number = self._numbers.get(id(parameter))
            if number is None:
                continue
            self._users.setdefault(number, {})[id(module)] = module
            if name == "weight" and type(module) in (torch.nn.Linear, FactoredLinear):
                self._notice(number, module, output)

    def _notice(self, number: int, layer: Any, output: torch.Tensor) -> None:
        if not (output.requires_grad and layer.weight.is_floating_point()):
            return
        self.layers[number] = layer
        rows = output.numel() // output.shape[-1]
        seen = Seen(rows, str(output.dtype).removeprefix("torch."), output.element_size())
        output.register_hook(partial(self._has_gone_back, number, seen))  # type: ignore[no-untyped-call]

    def _has_gone_back(self, number: int, seen: Seen, gradient: torch.Tensor) -> None:
        self._passes.setdefault(number, []).append(seen)


def _has_run(
    reference: weakref.ref[Watch], module: torch.nn.Module, inputs: Any, output: Any
) -> None:
    if traced.is_compiling() or not torch.is_grad_enabled():
        return
    watch = reference()
    if watch is not None:
        watch.has_run(module, output)
