"""Who is called when a parameter's gradient is complete: one reducer at a time."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.utils.weak import WeakTensorKeyDictionary

Hook = Callable[[Any], None]


class Reducer(Protocol):
    def arrived(self, number: int) -> None: ...


# The handle of each hook, and whose it is: an optimizer that is made anew for the same model takes
# over from the one before.
_owners: Any = WeakTensorKeyDictionary()


def take(parameter: torch.Tensor, reducer: Any, hook: Hook) -> Any:
    """From now on only this hook is called, with the parameter. Returns the reducer that had one
    before and still exists."""
    previous = None
    if parameter in _owners:
        reference, handle = _owners.pop(parameter)
        handle.remove()
        previous = reference()
    _owners[parameter] = (weakref.ref(reducer), _register(parameter, hook))
    return previous


def arrival(reducer: Reducer, number: int) -> Hook:
    """Tells the reducer that a gradient of this number has arrived."""
    # Weak: parameters would keep the optimizer alive for ever.
    reference = weakref.ref(reducer)

    def hook(parameter: Any) -> None:
        living = reference()
        if living is not None:
            living.arrived(number)

    return hook


class _ByNode:
    """For torch before register_post_accumulate_grad_hook: a hook of the node that accumulates the
    gradient."""

    def __init__(self, parameter: torch.Tensor, hook: Hook) -> None:
        node: Any = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
        self._node = node  # lives as long as it is held
        self._handle = node.register_hook(lambda *ignored: hook(parameter))

    def remove(self) -> None:
        self._handle.remove()


def _register(parameter: torch.Tensor, hook: Hook) -> Any:
    register = getattr(parameter, "register_post_accumulate_grad_hook", None)
    return register(hook) if register is not None else _ByNode(parameter, hook)
