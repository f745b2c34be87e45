"""Many tensors broadcast at once."""

from __future__ import annotations

import torch

from hvdlite.base.operations import BROADCAST
from hvdlite.core.engine import new_handle, synchronize
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import ProcessSet
from hvdlite.torch.ops import OPS


def broadcast_all(named: list[tuple[str | None, torch.Tensor]], root_rank: int, process_set: ProcessSet) -> None:
    """Broadcasts in place, all under way at once. The first error is raised once all have ended."""
    handles = [
        new_handle(OPS.start(Call(BROADCAST, name, process_set, root=root_rank, in_place=True), [tensor]))
        for name, tensor in named
    ]
    error: Exception | None = None
    for handle in handles:
        try:
            synchronize(handle)
        except Exception as failed:
            error = error or failed
    if error is not None:
        raise error
