"""Everything at once."""

from __future__ import annotations

from typing import Any

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import SUM, Here, in_threads


def _operation(here: Here, kind: int, name: str, seed: int) -> tuple[int, Any]:
    """Starts one of everything; a handle and what it yields."""
    size = [1, 30, 3000, 40_000][seed % 4]
    if kind == 0:
        return hvd.allreduce_async(np.full(size, seed, np.int64), op=SUM, name=name), np.full(
            size, seed * here.size
        )
    if kind == 1:
        rows = [np.full((r + seed) % 3, r) for r in here.ranks]
        return hvd.allgather_async(rows[here.rank], name=name), np.concatenate(rows)
    if kind == 2:
        root = seed % here.size
        return hvd.broadcast_async(np.full(size, here.rank), root, name=name), np.full(size, root)
    if kind == 3:
        return (
            hvd.alltoall_async(np.arange(here.size) + 100 * here.rank, name=name),
            np.array([here.rank + 100 * r for r in here.ranks]),
        )
    share = size // here.size + (here.rank < size % here.size)
    return hvd.reducescatter_async(np.full(size, seed), op=SUM, name=name), np.full(
        share, seed * here.size
    )


@check(seconds=40, tags=["engine"])
def all_operations_mixed_in_random_orders(here: Here) -> None:
    for step in range(6):
        order = here.rng(here.rank, step).permutation(100)
        under_way = {}
        for i in order:
            under_way[int(i)] = _operation(here, int(i) % 5, f"mix.{i}", int(i) + step)
        for i in here.rng(here.rank, step, "end").permutation(100):
            handle, want = under_way[int(i)]
            got = hvd.synchronize(handle)
            got = got[0] if isinstance(got, tuple) else got
            assert got.shape == want.shape and (got == want).all(), f"step {step}, operation {i}"


@check(seconds=40, tags=["engine"])
def threads_mix_blocking_and_asynchronous_operations(here: Here) -> None:
    def work(thread: int) -> None:
        rng = here.rng(here.rank, thread)
        for step in range(12):
            names = [f"t{thread}.{step % 2}.{i}" for i in range(8)]
            under_way = {}
            for i in rng.permutation(8):
                under_way[int(i)] = _operation(here, int(i) % 5, names[i], int(i) + step)
            blocking = hvd.allreduce(np.full(7, thread), op=SUM, name=f"t{thread}.blocking")
            assert (blocking == thread * here.size).all()
            for handle, want in under_way.values():
                got = hvd.synchronize(handle)
                got = got[0] if isinstance(got, tuple) else got
                assert got.shape == want.shape and (got == want).all()

    in_threads(4, work)


@check(seconds=30, min_ranks=2)
def disagreements_in_the_middle_of_traffic(here: Here) -> None:
    rng = here.rng(here.rank)
    for step in range(10):
        handles = []
        for i in rng.permutation(20):
            odd = i % 5 == 0 and here.rank == step % here.size
            handles.append(
                (int(i), hvd.allreduce_async(np.ones(3 + odd), op=SUM, name=f"traffic.{i}"))
            )
        for i, handle in handles:
            try:
                assert (hvd.synchronize(handle) == here.size).all() and i % 5
            except hvd.MismatchError:
                assert i % 5 == 0
