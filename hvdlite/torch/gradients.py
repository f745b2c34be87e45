"""torch's primitives for hvdlite.adapter.hooks.reducer: gradients in `.grad`, and hooks."""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from hvdlite.adapter.hooks.primitives import Hook
from hvdlite.core.process_sets import ProcessSet
from hvdlite.torch import memory, sparse
from hvdlite.torch.compression import batched
from hvdlite.torch.framework import sample
from hvdlite.torch.ops import OPS
from hvdlite.torch.replicas import READER

# The handle of each hook, and whose it is: an optimizer that is made anew for the same model takes
# over from the one before.
_owners: Any = WeakTensorKeyDictionary()


class TorchGradients:
    """See hvdlite.adapter.hooks.primitives.Gradients."""

    ops = OPS
    reader = READER
    batched = batched
    unrecorded = torch.no_grad
    expect = staticmethod(memory.use)
    sparse_dimensions = staticmethod(sparse.dimensions)

    def wanted(self, parameter: torch.Tensor) -> bool:
        return parameter.requires_grad

    def of(self, parameter: torch.Tensor) -> torch.Tensor | None:
        return None if parameter.grad is None else parameter.grad.detach()

    def put(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        if parameter.grad is None:
            parameter.grad = gradient
        else:
            OPS.framework.write_back(gradient, parameter.grad)

    def replace(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        parameter.grad = gradient

    def is_dense(self, gradient: torch.Tensor) -> bool:
        return gradient.layout == torch.strided

    def to_dense(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.to_dense()

    def to_sparse(self, gradient: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return gradient.to_sparse(like.sparse_dim())

    def start_sparse(
        self, gradient: torch.Tensor, name: str, op: int, process_set: ProcessSet
    ) -> Callable[[], torch.Tensor]:
        return sparse.start(OPS, gradient, name, op, process_set, patient=True)

    def zeros(self, parameter: torch.Tensor, sparse_dimensions: int) -> torch.Tensor:
        if sparse_dimensions:
            return sparse.nothing(parameter, sparse_dimensions)
        return torch.zeros_like(parameter)

    def fingerprint(self, parameter: torch.Tensor) -> int:
        # Of some thousand elements: a rank that has drawn other random numbers differs everywhere.
        return zlib.crc32(sample(parameter, 8192).tobytes(), parameter.numel() & 0xFFFFFFFF)

    def take(self, parameter: torch.Tensor, reducer: Any, hook: Hook) -> Any:
        previous = None
        if parameter in _owners:
            reference, handle = _owners.pop(parameter)
            handle.remove()
            previous = reference()
        _owners[parameter] = (weakref.ref(reducer), _register(parameter, hook))
        return previous

    def owner(self, parameter: torch.Tensor) -> Any:
        """The reducer whose hook the parameter has."""
        return _owners[parameter][0]() if parameter in _owners else None

    def has_other_hooks(self, parameter: torch.Tensor) -> bool:
        """Whether the program has hooks that get the parameter's gradient."""
        ours = _owners[parameter][1] if parameter in _owners else None
        after = getattr(parameter, "_post_accumulate_grad_hooks", None) or {}
        others = [key for key in after if key != getattr(ours, "id", None)]
        return bool(parameter._backward_hooks or others)

    def release(self, parameter: torch.Tensor) -> None:
        if parameter in _owners:
            _owners.pop(parameter)[1].remove()


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


GRADIENTS = TorchGradients()
