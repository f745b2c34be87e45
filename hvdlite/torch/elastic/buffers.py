"""Copies of a module's buffers that take microseconds, because each step makes one."""

from __future__ import annotations

import operator

import torch

from hvdlite.torch.elastic.copies import Copy

Buffers = list[torch.Tensor]
Owners = list[dict[str, torch.Tensor | None]]


class BufferCopies:
    """A copy of all buffers, such as BatchNorm's.

    `find()` looks for the modules that have buffers; the copies of one that was added since begin
    with the next `find()`.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._owners: Owners = []
        self._copied: Buffers = []  # the buffers themselves
        self._copied_of: Owners = []
        self._copies: Buffers = []
        self.find()

    def find(self) -> None:
        self._owners = [module._buffers for module in self._module.modules() if module._buffers]

    def take(self) -> None:
        buffers = _of(self._owners)
        self._copied_of = self._owners
        with torch.no_grad():
            if _same(buffers, self._copied):
                _copy(self._copies, buffers)
                return
            copy = Copy()
            copy.take(buffers)
            self._copied, self._copies = buffers, copy.kept

    def put_back(self) -> None:
        """Into the buffers that their modules have now."""
        with torch.no_grad():
            for buffer, copy in zip(_of(self._copied_of), self._copies, strict=False):
                if buffer.shape == copy.shape:
                    buffer.copy_(copy)


def _of(owners: Owners) -> Buffers:
    return [buffer for owner in owners for buffer in owner.values() if buffer is not None]


def _same(some: Buffers, others: Buffers) -> bool:
    """Whether they are the same objects, so that shapes need no look."""
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _copy(to: Buffers, source: Buffers) -> None:
    if not hasattr(torch, "_foreach_copy_"):  # before torch 2.1
        for one, other in zip(to, source, strict=True):
            one.copy_(other)
    elif to:
        torch._foreach_copy_(to, source)
