"""Makes process groups for torch: `init_process_group("hvdlite")`, `new_group()` and init()."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import types
import weakref
from collections.abc import Sequence
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
from torch import distributed as dist
from torch._C import _distributed_c10d as _c10d

from hvdlite.core import engine
from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.job import basics, default_group, membership, torch_environment
from hvdlite.job.process_sets import add_process_set
from hvdlite.torch.autoload import devices
from hvdlite.torch.distributed import older
from hvdlite.torch.distributed.face import NAME
from hvdlite.torch.distributed.group import DeviceBackend, Operations, ProcessGroup


def create(options: Any, backend_options: Any = None) -> Operations:
    """What torch calls for a group of this backend, or for a device of a group, on its members
    only.

    `options`: torch's _DistributedBackendOptions.
    """
    del backend_options
    several = _has_several_backends(_variable_of_torch("backend_config"))
    if getattr(options, "enable_reconfigure", False):  # from torch 2.14 on
        return _reconfigurable(options, several)
    rank, size = options.group_rank, options.group_size
    ranks = list(options.global_ranks_in_group)
    has_all = not ranks or size == basics.size() or basics.warms_up()
    kind = DeviceBackend if several else _kind_of_group(has_all)
    label = f"torch.{options.group_id}"
    if basics.warms_up():  # alone
        return kind(options.store, rank, options.timeout, label, global_process_set, [0])
    leaves = None
    if not ranks:
        leaves = torch_environment.join_at_store(options.store, rank, size, options.timeout)
    ranks = ranks or list(range(size))
    process_set = set_of(ranks, options.group_id, options.store)
    _share_buckets(_c10d.Reducer)
    group = kind(options.store, rank, options.timeout, label, process_set, ranks)
    if leaves is not None:
        group.when_it_ends(leaves)
    from hvdlite.torch.distributed import arrivals

    arrivals.watch(_variable_of_torch("pg") if several else None)
    return group


def _share_buckets(reducer: Any) -> None:
    """From now on DistributedDataParallel allocates the buckets that such groups reduce in memory
    that the ranks of a host share.

    `reducer`: torch's class that makes the buckets, and makes them anew in the order in which
    gradients come.
    """
    if hasattr(reducer, "_hvdlites"):
        return
    ours: weakref.WeakSet[Any] = weakref.WeakSet()
    reducer._hvdlites = ours
    first, again = reducer.__init__, reducer._rebuild_buckets

    def make(self: Any, *how: Any, **more: Any) -> None:
        group = next(
            (each for each in (*how, *more.values()) if isinstance(each, Operations)), None
        )
        if group is None:
            return first(self, *how, **more)
        from hvdlite.torch.memory import POOL  # most groups never have buckets

        with POOL.takes_all(group):
            first(self, *how, **more)
        ours.add(self)

    def make_again(self: Any) -> Any:
        if self not in ours:
            return again(self)
        from hvdlite.torch.memory import POOL

        with POOL.takes_all(self):
            return again(self)

    reducer.__init__, reducer._rebuild_buckets = make, make_again


def _kind_of_group(has_all: bool) -> type[Operations]:
    """A group of all ranks of an elastic job may be that of a loop that goes on in place."""
    if not has_all or not os.environ.get(membership.MEMBER):
        return ProcessGroup
    from hvdlite.torch.in_place.group import InPlace

    hide(InPlace)
    return InPlace


def _reconfigurable(options: Any, several: bool) -> Operations:
    if several:
        raise ValueError(
            "init_process_group(enable_reconfigure=True): torch reconfigures groups of one "
            'backend only: use "hvdlite" alone.'
        )
    from hvdlite.torch.distributed.reconfigurable import Reconfigurable

    hide(Reconfigurable)
    return Reconfigurable(options)


def register() -> None:
    """Tells torch the backend's name, unless hvdlite/torch/autoload.py has. It has not if the
    autoload of backends is off, or if torch is older than 2.5."""
    kind: Any = dist.Backend  # type: ignore[attr-defined]
    if NAME not in kind.backend_list:
        kind.register_backend(NAME, create, extended_api=True, devices=devices())


def _variable_of_torch(name: str) -> Any:
    """Of the function in torch that makes the group, which passes no argument that tells it."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(3):
        frame = frame and frame.f_back
        if frame is not None and name in frame.f_locals:
            return frame.f_locals[name]
    return None


def _has_several_backends(config: Any) -> bool:
    """`config`: torch's BackendConfig. ValueError before torch 2.14, which drops the others of a
    group if one is in Python."""
    backends = dict(getattr(config, "device_backend_map", {}))
    several = bool({str(name) for name in backends.values()} - {NAME})
    if several and not older.MIXES_BACKENDS:
        told = ",".join(f"{device}:{name}" for device, name in backends.items())
        raise ValueError(
            f'the backend "{told}" is not possible: with the backend hvdlite, torch would use it '
            'for all devices; torch 2.14 can. Use "hvdlite" alone, or make a second group with '
            "new_group(backend=...)."
        )
    return several


# ---- the process set of a group

_KEY = "hvdlite's process set"


def set_of(ranks: Sequence[int], group: str, store: Any) -> ProcessSet:
    """A set of its own for each group, so that its operations need no names. Only the members call
    this, each with the same arguments, because torch asks no other ranks.

    `store`: a torch store that only the members of the group use. A program may make a group again
    under its name, so the set's name has a part that is new.
    """
    if list(ranks) != sorted(ranks):
        raise ValueError(
            f"new_group({list(ranks)}): the backend hvdlite takes ranks in ascending order"
        )
    is_first = engine.rank() == ranks[0]
    new = secrets.token_hex(4) if is_first else ""
    if len(ranks) > 1:
        if is_first:
            store.set(_KEY, new)
        else:
            new = store.get(_KEY).decode()
    made = add_process_set(ranks, name=f"torch.distributed's group {group} ({new})")
    if is_first and len(ranks) > 1:  # all have read it
        with contextlib.suppress(RuntimeError):  # not every store of torch can delete
            store.delete_key(_KEY)
    return made


# ---- init(): torch's default group for the ranks of hvdlite's job

_THIRTY_MINUTES = timedelta(minutes=30)  # torch's own for backends without one

# The store has to live as long as the process: trainers make groups late.
_stores: list[Any] = []
_generation: int | None = None  # of an elastic job: in which init() has made the default group


def init(backend: str = NAME, timeout: timedelta = _THIRTY_MINUTES) -> None:
    """Makes torch's default process group of the ranks of this job, and calls hvd.init() if that is
    missing.

    Sets the variables RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and their like, at
    which trainers look, unless the launcher has. Sets ACCELERATE_USE_CPU on machines without an
    accelerator, where Accelerate would ignore the group. Does nothing if there is a default group
    already. The program's own init_process_group() goes on with this group.

    In an elastic job, call it at the beginning of the function under `hvd.elastic.run`: a new
    generation gets a new group. Or once, in front of `hvd.elastic.going_on()`: then a process that
    comes later is alone in its group until it enters the loop.
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
    rank, size = basics.rank(), basics.size()
    how: dict[str, Any] = {}
    if basics.warms_up():  # alone, until a loop goes on with the others
        rank, size = 0, 1
        torch_environment.announce_alone()
        _stores.append(_c10d.HashStore())
        how = {"store": _stores[-1], "rank": 0, "world_size": 1}
    # Those of a store of ours may be an earlier generation's.
    elif _stores or not torch_environment.is_set(rank, size):
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


# ---- methods that torch.compile must not trace


def hide(*classes: type) -> None:
    """Makes Dynamo skip the methods of these classes.

    C++ enters them while a compiled program runs. Dynamo would trace them and fail on torch's own
    objects, and torch.compiler.disable() does not keep it from that.
    """
    skip = _skipper()
    for owner in classes:
        for method in vars(owner).values():
            if isinstance(method, types.FunctionType):
                skip(method.__code__)


def _skipper() -> Any:
    frames: Any = torch._C._dynamo.eval_frame  # type: ignore[attr-defined]
    if not hasattr(frames, "_FrameExecStrategy"):  # before torch 2.7
        return frames.skip_code
    action = frames._FrameAction.SKIP
    strategy = frames._FrameExecStrategy(action, action)
    return lambda code: frames.set_code_exec_strategy(code, strategy)
