"""What the programs of ranks on a GPU have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable


def all_right(rank: int, checks: Iterable[tuple[str, Callable[[], None]]]) -> bool:
    """Runs the checks by name until one fails, which each rank tells; rank 0 also tells what is
    right."""
    for name, check in checks:
        try:
            check()
        except Exception as problem:
            print(f"rank {rank}: {name}: {type(problem).__name__}: {problem}", flush=True)
            return False
        if rank == 0:
            print(f"{name} is right", flush=True)
    return True


def pretend_hosts() -> None:
    """Lets NCCL believe that each rank is on a host of its own. The core reads it, too, in
    hvd.init(): call this before."""
    os.environ["NCCL_HOSTID"] = f"host-of-rank-{os.environ['HVDLITE_RANK']}"
