"""Copies of containers of tensors. The memory of the tensors is allocated once."""

from __future__ import annotations

import copy
from typing import Any

import torch


class Copy:
    """A copy of what state_dict() returns."""

    def __init__(self) -> None:
        self.kept: Any = None  # belongs to this object, and is not to be changed

    def take(self, value: Any) -> None:
        with torch.no_grad():
            self.kept = _copied(value, self.kept)

    def fresh(self) -> Any:
        """A copy of the copy, for an object that keeps the tensors that it loads."""
        with torch.no_grad():
            return _copied(self.kept, None)


def _copied(value: Any, own: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _tensor(value.detach(), own)
    if isinstance(value, dict):
        inside = own if isinstance(own, dict) else {}
        return {key: _copied(item, inside.get(key)) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_copied(item, None) for item in value))
    if type(value) in (list, tuple):
        before: Any = own
        if not isinstance(own, (list, tuple)) or len(own) != len(value):
            before = [None] * len(value)
        return type(value)(_copied(item, one) for item, one in zip(value, before, strict=True))
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
