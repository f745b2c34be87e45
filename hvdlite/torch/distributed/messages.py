"""send and recv by torch's gloo, because hvdlite's core has collectives only; and the store where
its ranks find each other if torch's own may be gone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any
from urllib.parse import quote

import torch
from torch import distributed as dist

from hvdlite.job.basics import JobStore

Tensors = Sequence[torch.Tensor]


class GlooForMessages:
    """The gloo of one group."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self._where = (dist.PrefixStore("p2p/", store), rank, size)  # type: ignore[attr-defined]
        self._timeout = timeout
        if not _connects_late():  # then all ranks of the group have to come to its constructor
            _ = self._gloo

    def send(self, tensors: Tensors, to: int, tag: int) -> Any:
        hosts = [tensor.detach().cpu().contiguous() for tensor in tensors]
        return self._gloo.send(hosts, to, tag)

    def receive(self, tensors: Tensors, source: int | None, tag: int) -> Any:
        """`source`: None for any rank."""
        hosts = [_room_for(tensor) for tensor in tensors]
        gloo = self._gloo
        work = gloo.recv_anysource(hosts, tag) if source is None else gloo.recv(hosts, source, tag)
        pairs = [(h, t) for h, t in zip(hosts, tensors, strict=True) if h is not t]
        return _Received(work, pairs, list(tensors)) if pairs else work

    def abort(self) -> None:
        """Messages under way raise an error, where torch's gloo can do that."""
        gloo = self.__dict__.pop("_gloo", None)
        if gloo is not None and hasattr(gloo, "abort"):
            gloo.abort()

    def close(self) -> None:
        self.__dict__.pop("_gloo", None)

    @cached_property
    def _gloo(self) -> Any:
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


def _room_for(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if gloo can write it."""
    if tensor.is_cpu and tensor.is_contiguous():
        return tensor.detach() if tensor.requires_grad else tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype)


# ---- the store

_Store: Any = dist.Store  # type: ignore[attr-defined]


class JobsStore(_Store):
    """The store where the ranks of the job have met, as torch's: it lives as long as the job, and
    torch's in a process that may have died.

    Each thread has a connection of its own, because what one waits for may be set by another.
    """

    def __init__(self, job: JobStore, timeout: timedelta) -> None:
        super().__init__()
        self._job = job
        self._patience = timeout
        self._of_thread = threading.local()
        self._clients: list[Any] = []

    def set(self, key: str, value: str | bytes) -> None:
        self._client.set(self._name(key), value.encode() if isinstance(value, str) else value)

    def get(self, key: str) -> bytes:
        return self._waits_for(key, self._patience)

    def add(self, key: str, amount: int) -> int:
        return self._client.add(self._name(key), amount)

    def check(self, keys: Sequence[str]) -> bool:
        try:
            for key in keys:
                self._client.get(self._name(key), 0.0)
        except TimeoutError:
            return False
        return True

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        for key in keys:
            self._waits_for(key, timeout or self._patience)

    def delete_key(self, key: str) -> bool:
        self._client.delete(self._name(key))
        return True

    def set_timeout(self, timeout: timedelta) -> None:
        self._patience = timeout

    def close(self) -> None:
        """Ends calls that wait, too."""
        for client in self._clients:
            client.close()

    def _waits_for(self, key: str, timeout: timedelta) -> bytes:
        try:
            return self._client.get(self._name(key), timeout.total_seconds())
        except TimeoutError as error:
            raise dist.DistStoreError(str(error)) from error

    def _name(self, key: str) -> str:
        """The store deletes what is below a key with it, and torch's has no such order."""
        return f"{self._job.prefix}torch/{quote(key, safe='')}"

    @property
    def _client(self) -> Any:
        client: Any = getattr(self._of_thread, "client", None)
        if client is None:
            client = self._job.connect()
            self._of_thread.client = client
            self._clients.append(client)
        return client
