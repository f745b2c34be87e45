"""The door to the native core: the only file of the adapters that knows its signatures."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from hvdlite import _core
from hvdlite.base.operations import BROADCAST
from hvdlite.core.handles import Pending, new_handle, poll, run_all, run_now, synchronize
from hvdlite.core.process_sets import ProcessSet
from hvdlite.exceptions import NotInitializedError

__all__ = [
    "DeviceArray", "GradientHooks", "Pending", "PoolStats", "abort", "codecs", "digests",
    "end_generation", "is_root", "library", "local_size", "members_of", "new_handle", "poll",
    "pool_allocate", "pool_arm", "pool_expect", "pool_offset", "pool_patch", "pool_stats",
    "pool_take_all", "rank", "ranks_of", "run", "run_all", "run_in_place", "run_list_in_place",
    "run_now", "stand_for_all", "start_in_place", "start_list_in_place", "submit",
    "submit_encoded", "submit_group", "submit_sparse", "synchronize", "takes_gpus", "wait_all",
    "warm_up", "warms_up",
]  # fmt: skip


def library(name: str) -> str:
    """The path of a library that was built with the core, and lies beside it."""
    return os.path.join(os.path.dirname(_core.__file__), name)


rank = _core.rank
local_size = _core.local_size

#: run, submit and submit_group take the numbers of an operation, a reduction and a process set, a
#: name, the tensors and the memory for the results (None: the core allocates it): see _core.pyi.
#: The core holds the memory until the operation is done.
run = _core.run
#: An allreduce in place of a tensor that can be lent as it is. False for another tensor: then
#: nothing has happened.
run_in_place = _core.run_in_place
#: As run_in_place. Returns a handle for synchronize(), or None.
start_in_place = _core.start_in_place
submit = _core.submit
#: Returns one handle for each tensor, or one for all.
submit_group = _core.submit_group
#: As run_in_place and start_in_place, for a group of tensors of one type, which comes last. The
#: group is one operation.
run_list_in_place = _core.run_list_in_place
start_list_in_place = _core.start_list_in_place

#: An allreduce by a codec: see docs/decisions/0014-codecs.md.
submit_encoded = _core.submit_encoded
#: An allreduce to which each rank contributes its largest elements: see csrc/kernels/select.h.
submit_sparse = _core.submit_sparse
#: The codecs' numbers and the names of their parameters, by name.
codecs = _core.codecs

#: A result on a GPU, for from_dlpack().
DeviceArray = _core.DeviceArray

#: Ends the job on all ranks: abort(why).
abort = _core.abort

#: Ends one generation of an elastic job on all ranks: end_generation(number, why).
end_generation = _core.end_generation

#: Waits for all native handles of a list, whatever becomes of some, then raises the first one's
#: error. For results in their outputs. The list is emptied of those that are over.
wait_all = _core.wait_all

#: Submits gradients from autograd's hooks without entering Python: see
#: csrc/bindings/gradient_hooks.cc.
GradientHooks = _core.GradientHooks


#: The calls in place, by name.
_IN_PLACE: dict[str, Callable[..., Any]] = {
    name: getattr(_core, name)
    for name in ("run_in_place", "start_in_place", "run_list_in_place", "start_list_in_place")
}

_warms_up = False


def warm_up(alone: bool) -> None:
    """Turns the state on or off in which a newcomer of an elastic job warms up.

    The process has an engine of its own, of one rank. A broadcast returns its input. Other
    operations are refused, because their results would differ from those of the other ranks.
    """
    global _warms_up, run, submit, submit_group
    if alone != _warms_up:
        _warms_up = alone
        calls: list[Callable[..., Any]] = [_core.run, _core.submit, _core.submit_group]
        run, submit, submit_group = map(_to_itself, calls) if alone else calls
        # nothing is lent: run() and submit() are asked
        _in_place_are({name: _declines if alone else call for name, call in _IN_PLACE.items()})


def _declines(*described: Any) -> None:
    return None


def _in_place_are(calls: dict[str, Callable[..., Any]]) -> None:
    globals().update(calls)


def warms_up() -> bool:
    return _warms_up


def is_root(root: int) -> bool:
    """Whether this rank sends in a broadcast from `root`."""
    return _warms_up or _core.rank() == root


def _to_itself(call: Callable[..., Any]) -> Callable[..., Any]:
    def broadcast_only(
        kind: int, op: int, process_set: int, name: str | None, data: Any, output: Any, *rest: Any
    ) -> Any:
        if kind != BROADCAST.kind:
            raise RuntimeError(
                "This process has joined a job that trains already, and the other ranks take part "
                "in no operation before the function under @hvd.elastic.run. Only broadcasts are "
                "possible here: move other operations into that function."
            )
        return call(kind, op, 0, name, data, output, 0, *rest[1:])

    return broadcast_only


def stand_for_all(set_id: int) -> None:
    """Until the next call, operations over all ranks are those over this set; 0: over all."""
    global run, submit, submit_group
    calls: list[Callable[..., Any]] = [_core.run, _core.submit, _core.submit_group]
    run, submit, submit_group = [_over(set_id, call, 2) for call in calls] if set_id else calls
    _in_place_are(
        {name: _over(set_id, call, 1) if set_id else call for name, call in _IN_PLACE.items()}
    )


def _over(set_id: int, call: Callable[..., Any], place: int) -> Callable[..., Any]:
    """`place`: of the process set among the arguments."""

    def over(*given: Any) -> Any:
        return call(*given[:place], given[place] or set_id, *given[place + 1 :])

    return over


#: A 64-bit digest of each tensor of a list, in host memory and contiguous: see
#: csrc/kernels/digest.h.
digests = _core.digests

#: Gradients and tensors in memory that ranks share: see csrc/api/hvdlite.h.
pool_patch = _core.pool_patch
pool_expect = _core.pool_expect
pool_arm = _core.pool_arm
pool_take_all = _core.pool_take_all
pool_offset = _core.pool_offset
#: Memory with Python's buffer protocol, or None.
pool_allocate = _core.pool_allocate


class PoolStats(NamedTuple):
    hits: int  # gradients allocated there
    misses: int  # refused although the size is known
    live: int  # allocated now
    bytes: int  # of all blocks made


def pool_stats() -> PoolStats:
    """The counters of that memory."""
    return PoolStats(*_core.pool_stats())


def takes_gpus() -> bool:
    """Whether tensors on CUDA GPUs can be lent as they are; if not, they travel as copies in host
    memory."""
    try:
        _core.check_gpus()
    except (NotImplementedError, NotInitializedError):
        return False
    return True


def ranks_of(set_id: int) -> list[int]:
    """The ranks of the set with this number."""
    members = _core.process_set_ranks(set_id)
    if not members:
        raise ValueError(
            f"there is no process set {set_id}: it has been removed, or hvd.init() is missing"
        )
    return members


def members_of(process_set: ProcessSet) -> list[int]:
    """The ranks of a registered set; none if there is no such set, or no job."""
    if process_set.process_set_id is None or not _core.is_initialized():
        return []
    return _core.process_set_ranks(process_set.process_set_id)
