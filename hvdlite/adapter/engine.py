"""The door to the native core: the only file of the adapters that knows its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite import _core
from hvdlite.exceptions import NotInitializedError
from hvdlite.handles import Pending, new_handle, poll, run_now, synchronize
from hvdlite.ops import Kind, Sum
from hvdlite.process_sets import ProcessSet, set_id_of

__all__ = [
    "GradientHooks",
    "DeviceArray",
    "Kind",
    "Pending",
    "abort",
    "members_of",
    "new_handle",
    "poll",
    "rank",
    "ranks_of",
    "run",
    "run_now",
    "submit",
    "submit_group",
    "synchronize",
    "takes_gpus",
    "wait_all",
]

_NO_SPLITS: list[int] = []

rank = _core.rank

#: A result on a GPU, for from_dlpack().
DeviceArray = _core.DeviceArray

#: Ends the job on all ranks: abort(why).
abort = _core.abort

#: Waits for all native handles of a list, whatever becomes of some, then raises the first one's error. For results in their
#: outputs. The list is emptied of those that are over.
wait_all = _core.wait_all


#: The short way for gradients, by hooks: see csrc/bindings/gradient_hooks.cc.
GradientHooks = _core.GradientHooks


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


def submit(
    kind: int,
    tensor: Any,
    output: Any,
    name: str | None,
    process_set: ProcessSet,
    op: int = Sum,
    root: int = 0,
    prescale: float = 1.0,
    postscale: float = 1.0,
    splits: list[int] = _NO_SPLITS,
) -> int:
    """Starts one operation; returns its native handle. The core holds the memory until it is done."""
    set_id = set_id_of(process_set)
    return _core.submit(kind, op, set_id, name, tensor, output, root, prescale, postscale, splits)


def run(
    kind: int,
    tensor: Any,
    output: Any,
    name: str | None,
    process_set: ProcessSet,
    op: int = Sum,
    root: int = 0,
    prescale: float = 1.0,
    postscale: float = 1.0,
    splits: list[int] = _NO_SPLITS,
) -> Any:
    """submit() and wait() in one. None if the result is in `output`."""
    return _core.run(kind, op, set_id_of(process_set), name, tensor, output, root, prescale, postscale, splits)


def submit_group(
    kind: int,
    tensors: Sequence[Any],
    outputs: Sequence[Any],
    name: str | None,
    process_set: ProcessSet,
    *,
    op: int = Sum,
    prescale: float = 1.0,
    postscale: float = 1.0,
) -> list[int]:
    """Starts several operations that become ready, travel and fail together. `outputs`: none, or one for each."""
    return _core.submit_group(kind, op, set_id_of(process_set), name, list(tensors), list(outputs), prescale, postscale)
