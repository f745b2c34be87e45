"""hvdlite's background thread alone: the caller never waits inside hvdlite, where it would do the
work itself, but gives its core away until it is told that all is done."""

from __future__ import annotations

import os
from typing import Any

import hvdlite as hvd
from peers import Unsupported
from peers.hvdlite import buffer, fill, first, start, stop

__all__ = ["allreduce", "buffer", "fill", "first", "start", "step", "stop"]


def allreduce(tensor: Any, name: str) -> None:
    handle = hvd.allreduce_async_(tensor, op=hvd.Sum, name=name)
    while not hvd.poll(handle):
        os.sched_yield()
    hvd.synchronize(handle)


def step(tensors: dict[str, Any]) -> None:
    raise Unsupported("only single operations")
