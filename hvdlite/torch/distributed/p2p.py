"""Messages between two ranks: torch's gloo carries them. It connects two ranks when they first
talk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

Tensors = Sequence[torch.Tensor]


class Lent:
    """The gloo of one group."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self._where = (dist.PrefixStore("p2p/", store), rank, size)  # type: ignore[attr-defined]
        self._timeout = timeout
        self._gloo: Any = None
        if not _connects_late():  # then all ranks of the group have to come to its constructor
            self._gloo = self._made()

    def send(self, tensors: Tensors, to: int, tag: int) -> Any:
        return self._get().send([_on_host(tensor) for tensor in tensors], to, tag)

    def receive(self, tensors: Tensors, source: int | None, tag: int) -> Any:
        """`source`: None for any rank."""
        hosts = [_room_for(tensor) for tensor in tensors]
        gloo = self._get()
        work = gloo.recv_anysource(hosts, tag) if source is None else gloo.recv(hosts, source, tag)
        pairs = [(h, t) for h, t in zip(hosts, tensors, strict=True) if h is not t]
        return _Received(work, pairs, list(tensors)) if pairs else work

    def close(self) -> None:
        self._gloo = None

    def _get(self) -> Any:
        if self._gloo is None:
            self._gloo = self._made()
        return self._gloo

    def _made(self) -> Any:
        kind: Any = dist.ProcessGroupGloo  # type: ignore[attr-defined]
        if not _connects_late():
            return kind(*self._where, self._timeout)
        options = kind._Options()
        options._devices = [kind.create_default_device(lazy_init=True)]
        options._timeout = self._timeout
        return kind(*self._where, options)


class _Received(dist.Work):  # type: ignore[name-defined,misc]
    """A message whose tensor gloo cannot write itself."""

    def __init__(self, work: Any, pairs: list[tuple[torch.Tensor, torch.Tensor]], value: Any):
        super().__init__()
        self._work, self._pairs, self._value = work, pairs, value

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._work.wait(*([] if timeout is None else [timeout]))
        pairs, self._pairs = self._pairs, []
        for host, tensor in pairs:
            tensor.data.copy_(host)
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return bool(self._work.is_completed()) and self.wait()

    def _source_rank(self) -> int:
        return int(self._work._source_rank())

    def result(self) -> Any:
        self.wait()
        return self._value


def _connects_late() -> bool:
    """From torch 2.6 on."""
    return "lazy_init" in (dist.ProcessGroupGloo.create_default_device.__doc__ or "")  # type: ignore[attr-defined]


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous()


def _room_for(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if gloo can write it."""
    if tensor.is_cpu and tensor.is_contiguous():
        return tensor.detach() if tensor.requires_grad else tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype)
