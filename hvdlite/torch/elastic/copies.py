"""Copies of containers of tensors. The memory of the tensors is allocated once."""

from __future__ import annotations

import copy
from typing import Any

import torch

from hvdlite.adapter.containers import mapped


class Copy:
    """A copy of what state_dict() returns."""

    def __init__(self) -> None:
        self.kept: Any = None  # belongs to this object, and is not to be changed

    def take(self, value: Any) -> None:
        with torch.no_grad():
            self.kept = mapped(value, _copied, self.kept)

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
