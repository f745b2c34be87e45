"""Horovod's native module for torch, of which programs use the functions that tell how an operation
goes."""

from __future__ import annotations

from hvdlite.torch.ops import poll, synchronize

__all__ = ["horovod_torch_poll", "horovod_torch_wait_and_clear"]


def horovod_torch_poll(handle: int) -> bool:
    """Whether the operation is done."""
    return poll(handle)


def horovod_torch_wait_and_clear(handle: int) -> None:
    """Waits for the operation; its handle ends with that."""
    synchronize(handle)
