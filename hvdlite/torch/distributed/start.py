"""init(): torch.distributed for the ranks of hvdlite's job."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from hvdlite.arrays.objects import broadcast_object
from hvdlite.job import basics, torch_environment
from hvdlite.torch.distributed import older
from hvdlite.torch.distributed.face import NAME

_THIRTY_MINUTES = timedelta(minutes=30)  # torch's own for backends without one

# The store has to live as long as the process: trainers make groups late.
_stores: list[Any] = []


def init(backend: str = NAME, timeout: timedelta = _THIRTY_MINUTES) -> None:
    """Makes torch's default process group of the ranks of this job, and calls hvd.init() if that is
    missing.

    Sets the variables RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and their like, at
    which trainers look, unless the launcher has. Sets ACCELERATE_USE_CPU on machines without an
    accelerator, where Accelerate would ignore the group. Does nothing if there is a default group
    already.
    `backend` and `timeout` are those of torch.distributed.init_process_group().
    """
    group: Any = dist
    if group.is_initialized():
        return
    joins = not basics.is_initialized()
    basics.init()
    rank, size = basics.rank(), basics.size()
    how = {}
    if not torch_environment.is_set(rank, size):
        store, host, port = _store(rank, size, timeout)
        torch_environment.announce(host, port)
        how = {"store": store, "rank": rank, "world_size": size}
    if not getattr(torch, "accelerator", torch.cuda).is_available():
        os.environ.setdefault("ACCELERATE_USE_CPU", "true")
    group.init_process_group(backend, timeout=timeout, **how)
    if backend != NAME:
        return
    torch_environment.has_met()
    if joins:
        group.group.WORLD.when_it_ends(basics.shutdown)


def _store(rank: int, size: int, timeout: timedelta) -> tuple[Any, str, int]:
    """A store that rank 0 serves, with its address. It knows no secret, so it listens on loopback
    if all ranks are on one host."""
    host = torch_environment.address(basics.local_size() < size)
    kind: Any = dist.TCPStore  # type: ignore[attr-defined]
    how = {"timeout": timeout, "wait_for_workers": False, **older.STORE_OPTIONS}
    served = None
    if rank == 0:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, 0), family=family)
        port = listener.getsockname()[1]
        served = kind(host, port, size, is_master=True, master_listen_fd=listener.detach(), **how)
    host, port = broadcast_object((host, port) if rank == 0 else None, 0)
    store = served or kind(host, port, size, is_master=False, **how)
    _stores.append(store)
    return store, host, port
