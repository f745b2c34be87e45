"""hvdlite, a step's tensors submitted by one call."""

from __future__ import annotations

from typing import Any

import hvdlite as hvd
from peers import Unsupported
from peers.hvdlite import buffer, fill, first, start, stop

__all__ = ["allreduce", "buffer", "fill", "first", "start", "step", "stop"]


def allreduce(tensor: Any, name: str) -> None:
    raise Unsupported("only steps")


def step(tensors: dict[str, Any]) -> None:
    names = list(tensors)
    hvd.grouped_allreduce_(list(tensors.values()), op=hvd.Sum, name=names[0])
