"""init(): torch.distributed for the ranks of hvdlite's job."""

from __future__ import annotations

import socket
import sys
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.job import basics, default_group, membership, torch_environment
from hvdlite.torch.distributed import older
from hvdlite.torch.distributed.face import NAME

_THIRTY_MINUTES = timedelta(minutes=30)  # torch's own for backends without one

# The store has to live as long as the process: trainers make groups late.
_stores: list[Any] = []
_generation: int | None = None  # of an elastic job: in which init() has made the default group

_TOO_EARLY = (
    "hvdlite.torch.distributed.init(): this process has joined a job that trains already, and has "
    "no rank yet. Call init() at the beginning of the function under @hvd.elastic.run: each "
    "generation has a default group of its own."
)
_FOR_ONE_GENERATION = (
    "hvdlite: hvdlite.torch.distributed.init() has been called before the function under "
    "@hvd.elastic.run: this default group ends with the first generation, and a process that comes "
    "later has none. Call init() at the beginning of that function."
)


def init(backend: str = NAME, timeout: timedelta = _THIRTY_MINUTES) -> None:
    """Makes torch's default process group of the ranks of this job, and calls hvd.init() if that is
    missing.

    Sets the variables RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and their like, at
    which trainers look, unless the launcher has. Sets ACCELERATE_USE_CPU on machines without an
    accelerator, where Accelerate would ignore the group. Does nothing if there is a default group
    already; in an elastic job, a new generation gets a new one. The program's own
    init_process_group() goes on with this group.
    `backend` and `timeout` are those of torch.distributed.init_process_group().
    """
    global _generation
    group: Any = dist
    member = membership.member()
    if group.is_initialized():
        if member is None or _generation in (None, member.generation):
            return
        group.destroy_process_group()  # of ranks that are others now
    joins = not basics.is_initialized()
    basics.init()
    member = membership.member()
    if member is not None and basics.warms_up():
        raise RuntimeError(_TOO_EARLY)
    rank, size = basics.rank(), basics.size()
    if member is not None and not member.in_run and rank == 0:
        print(_FOR_ONE_GENERATION, file=sys.stderr, flush=True)
    how = {}
    # Those of a store of ours may be an earlier generation's.
    if _stores or not torch_environment.is_set(rank, size):
        store, host, port = _store(rank, size, timeout)
        torch_environment.announce(host, port)
        how = {"store": store, "rank": rank, "world_size": size}
    default_group.tell_accelerate(torch)
    group.init_process_group(backend, timeout=timeout, **how)
    default_group.keep(group, group.group.WORLD)
    _generation = None if member is None else member.generation
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
