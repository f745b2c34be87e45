"""horovod.runner.common.util.env: what a launcher has put into the environment."""

from __future__ import annotations

import os
import re

from hvdlite.launch import plan

__all__ = ["get_env_rank_and_size", "is_exportable"]

_PAIRS = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def get_env_rank_and_size() -> tuple[int, int]:
    """Returns the rank and the size of this process before init(); (0, 1) if no launcher has set
    them."""
    for rank, size in _PAIRS:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def is_exportable(v: str) -> bool:
    """Whether the launcher passes a variable of this name on to other hosts."""
    return bool(plan.travelling({v: ""})) and not re.match("_HOROVOD_SECRET_KEY", v)
