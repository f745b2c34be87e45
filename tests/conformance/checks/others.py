"""The operations beside allreduce, as programs use them again and again: other rows, other splits,
several roots."""

from __future__ import annotations

import gc

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import SUM, Here, raises


@check(tags=["engine"])
def a_name_may_come_back_with_other_rows(here: Here) -> None:
    for step in range(12):
        # Every rank changes at other steps, so that some send the slot and others the request in
        # full.
        rows = [2 + (step // (r + 1)) % 3 for r in here.ranks]
        parts = [here.data("int32", (rows[r], 2), r, step) for r in here.ranks]
        here.close(
            hvd.allgather(parts[here.rank], name="rows"),
            np.concatenate(parts),
            f"step {step}",
            exact=True,
        )


@check()
def rows_that_are_not_contiguous_are_gathered(here: Here) -> None:
    parts = [here.data("float64", (9, 6), r)[::2, ::-1].T for r in here.ranks]
    here.close(hvd.allgather(parts[here.rank]), np.concatenate(parts), exact=True)


@check()
def results_outlive_everything_else(here: Here) -> None:
    kept = [hvd.allgather(np.full((100, 3), r, np.float32), name="kept") for r in range(20)]
    gc.collect()
    for r, result in enumerate(kept):
        assert (result == r).all() and result.shape == (100 * here.size, 3)


@check()
def a_view_is_filled_in_place(here: Here) -> None:
    root = here.size - 1
    whole = here.everyones("float32", (8, 9))
    base = whole[here.rank].copy()
    view = base[::2, 1::3]
    assert hvd.broadcast_(view, root) is view
    here.close(np.array(base[::2, 1::3]), np.array(whole[root][::2, 1::3]), exact=True)
    assert base[1].tobytes() == whole[here.rank][1].tobytes()


@check()
def a_read_only_tensor_is_no_place_for_a_result(here: Here) -> None:
    locked = np.full(3, here.rank)
    locked.flags.writeable = False
    for call in (hvd.broadcast_, hvd.broadcast_async_):
        with raises(ValueError, "read-only"):
            call(locked, 0)
    assert (hvd.broadcast(locked, 0) == 0).all()


@check(min_ranks=2, tags=["engine"])
def broadcasts_from_several_roots_at_once(here: Here) -> None:
    handles = [
        hvd.broadcast_async(
            np.full(10 + root, here.rank, np.int32), root, name=f"from.{root}.{again}"
        )
        for again in range(5)
        for root in here.ranks
    ]
    for number, handle in enumerate(handles):
        assert (hvd.synchronize(handle) == number % here.size).all()


@check(tags=["engine"])
def a_name_may_come_back_with_other_splits(here: Here) -> None:
    n = here.size
    for step in range(10):
        splits = [[1 + (step // (s + 1) + t) % 3 for t in range(n)] for s in range(n)]
        tensors = [here.data("float32", (3 * n,), s, step) for s in here.ranks]
        parts = [
            t[sum(row[: here.rank]) :][: row[here.rank]]
            for t, row in zip(tensors, splits, strict=True)
        ]
        got, received = hvd.alltoall(tensors[here.rank], splits[here.rank], name="parts")
        here.close(got, np.concatenate(parts), f"step {step}", exact=True)
        assert received.tolist() == [row[here.rank] for row in splits]


@check()
def a_scalar_stays_one_and_the_default_is_the_average(here: Here) -> None:
    got = hvd.reduce(np.float64(here.rank), 0)
    assert np.shape(got) == ()
    assert got == (sum(here.ranks) / here.size if here.rank == 0 else here.rank)


@check(min_ranks=2)
def several_at_once_to_different_roots(here: Here) -> None:
    started = [
        hvd.reduce_async(np.full(5, here.rank + i), i % here.size, op=SUM, name=f"r.{i}")
        for i in range(20)
    ]
    for i, handle in enumerate(started):
        whole = sum(r + i for r in here.ranks)
        want = whole if here.rank == i % here.size else here.rank + i
        assert hvd.synchronize(handle).tolist() == [want] * 5
