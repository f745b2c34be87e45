"""The door to the native core: the only file of the adapters that knows its signatures."""

from __future__ import annotations

from typing import NamedTuple

from hvdlite import _core
from hvdlite.core.handles import Pending, new_handle, poll, run_all, run_now, synchronize
from hvdlite.core.process_sets import ProcessSet
from hvdlite.exceptions import NotInitializedError

__all__ = [
    "DeviceArray", "GradientHooks", "Pending", "PoolStats", "abort", "members_of", "new_handle",
    "poll", "pool_arm", "pool_expect", "pool_offset", "pool_patch", "pool_stats", "rank", "ranks_of",
    "run", "run_all", "run_now", "submit", "submit_group", "synchronize", "takes_gpus",
    "wait_all",
]  # fmt: skip

rank = _core.rank

#: run, submit and submit_group take the numbers of an operation, a reduction and a process set, a name, the tensors and the
#: memory for the results (None: the core allocates it): see _core.pyi. The core holds the memory until the operation is done.
run = _core.run
submit = _core.submit
submit_group = _core.submit_group

#: A result on a GPU, for from_dlpack().
DeviceArray = _core.DeviceArray

#: Ends the job on all ranks: abort(why).
abort = _core.abort

#: Waits for all native handles of a list, whatever becomes of some, then raises the first one's error. For results in their
#: outputs. The list is emptied of those that are over.
wait_all = _core.wait_all


#: The short way for gradients, by hooks: see csrc/bindings/gradient_hooks.cc.
GradientHooks = _core.GradientHooks


#: Gradients in memory that ranks share: see csrc/api/hvdlite.h.
pool_patch = _core.pool_patch
pool_expect = _core.pool_expect
pool_arm = _core.pool_arm
pool_offset = _core.pool_offset


class PoolStats(NamedTuple):
    hits: int  # gradients allocated there
    misses: int  # refused although the size is known
    live: int  # allocated now
    bytes: int  # of all blocks made


def pool_stats() -> PoolStats:
    """The counters of that memory."""
    return PoolStats(*_core.pool_stats())


def takes_gpus() -> bool:
    """Whether tensors on CUDA GPUs can be lent as they are; if not, they travel as copies in host memory."""
    try:
        _core.check_gpus()
    except (NotImplementedError, NotInitializedError):
        return False
    return True


def ranks_of(set_id: int) -> list[int]:
    """The ranks of the set with this number."""
    members = _core.process_set_ranks(set_id)
    if not members:
        raise ValueError(f"there is no process set {set_id}: it has been removed, or hvd.init() is missing")
    return members


def members_of(process_set: ProcessSet) -> list[int]:
    """The ranks of a registered set; none if there is no such set, or no job."""
    if process_set.process_set_id is None or not _core.is_initialized():
        return []
    return _core.process_set_ranks(process_set.process_set_id)
