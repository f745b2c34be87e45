"""Copies of containers of tensors. The memory of the tensors is allocated once."""

from __future__ import annotations

import copy
from operator import is_
from typing import Any

import torch

from hvdlite.adapter.containers import mapped


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
