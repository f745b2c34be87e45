"""The loop of ranks.py and jax_ranks.py."""

from __future__ import annotations

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
