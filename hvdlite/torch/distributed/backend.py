"""Makes process groups for torch: `init_process_group("hvdlite")` and `new_group()`."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from torch import distributed as dist

from hvdlite.job import torch_environment
from hvdlite.torch.distributed.face import NAME
from hvdlite.torch.distributed.group import ProcessGroup
from hvdlite.torch.distributed.sets import set_of


def create(options: Any, backend_options: Any = None) -> ProcessGroup:
    """What torch calls for a group of this backend, on its members only.

    `options`: torch's _DistributedBackendOptions.
    """
    del backend_options
    _refuse_several_backends(_config_of_torch())
    rank, size = options.group_rank, options.group_size
    ranks = list(options.global_ranks_in_group)
    is_world = not ranks
    leaves = torch_environment.join_at_store(options.store, rank, size) if is_world else None
    ranks = ranks or list(range(size))
    process_set = set_of(ranks, options.group_id, options.store)
    label = f"torch.{options.group_id}"
    group = ProcessGroup(options.store, rank, options.timeout, label, process_set, ranks)
    if leaves is not None:
        group.when_it_ends(leaves)
    return group


def register() -> None:
    """Tells torch the backend's name, unless hvdlite/torch/autoload.py has. It has not if the
    autoload of backends is off, or if torch is older than 2.5."""
    kind: Any = dist.Backend  # type: ignore[attr-defined]
    if NAME not in kind.backend_list:
        kind.register_backend(NAME, create, extended_api=True, devices=["cpu", "cuda"])


def _config_of_torch() -> Any:
    """torch's BackendConfig of the group: a variable of the function in torch that makes it. torch
    passes no argument that tells it."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(3):
        frame = frame and frame.f_back
        if frame is not None and "backend_config" in frame.f_locals:
            return frame.f_locals["backend_config"]
    return None


def _refuse_several_backends(config: Any) -> None:
    """torch drops the other backends of a group if one is written in Python."""
    backends = dict(getattr(config, "device_backend_map", {}))
    if {str(name) for name in backends.values()} - {NAME}:
        told = ",".join(f"{device}:{name}" for device, name in backends.items())
        raise ValueError(
            f'the backend "{told}" is not possible: with the backend hvdlite, torch would use it '
            'for all devices. Use "hvdlite" alone, or make a second group with new_group(backend='
            "...)."
        )
