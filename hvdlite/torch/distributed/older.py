"""What is done instead where older versions of torch lack something that a backend needs. The
oldest that is tried is 2.4 (tests/versions)."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch
from torch._C import _distributed_c10d as _c10d

_VERSION = torch.torch_version.TorchVersion(torch.__version__)

#: Whether torch forgets the Python part of a work that a process group returns to C++, which then
#: waits for ever.
FORGETS_WORKS: bool = _VERSION < "2.7"

#: For TCPStore: its newer server takes no socket that listens already, before torch 2.8.
STORE_OPTIONS: dict[str, Any] = {"use_libuv": False} if _VERSION < "2.8" else {}

#: What a backend of one device can derive from in Python; before torch 2.14 there is nothing.
MIXES_BACKENDS: bool = _VERSION >= "2.14"
PYTHONS_BACKEND: Any = getattr(_c10d, "Backend") if MIXES_BACKENDS else object  # noqa: B009

_OURS = "hvdlite.torch."
_KEEPS_WORKS = "torch.distributed.distributed_c10d"
_new_work: Any = getattr(_c10d, "_create_work_from_future")  # noqa: B009 - torch declares it nowhere


def for_the_caller(work: Any, is_reducer: bool = False) -> Any:
    """The work itself, if the caller of the collective keeps it or torch does.

    Else a work of torch that is over: the caller is C++ below functional collectives or
    DistributedDataParallel's constructor. `is_reducer`: it is the C++ of DistributedDataParallel
    in a backward pass.
    """
    if not FORGETS_WORKS or _is_kept():
        return work
    if not is_reducer:
        return ended(work)
    work.get_future()  # ByBackward keeps the work for the reducer
    return work


def ended(work: Any) -> Any:
    """Waits for a work and makes a work of torch with its value. Raises the work's error."""
    work.wait()
    return _new_work(work.get_future())


def _is_kept() -> bool:
    """Whether the caller of this package is torch's Python, which returns works to its own caller
    or waits for them."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _module(frame).startswith(_OURS):
        frame = frame.f_back
    return frame is not None and _module(frame) == _KEEPS_WORKS


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
