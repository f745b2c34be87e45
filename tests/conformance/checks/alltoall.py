"""alltoall with even, uneven and empty parts."""

from __future__ import annotations

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import DTYPES, Here, dtype_of, raises


def _exchange(here: Here, tensors: list[np.ndarray], splits: list[list[int]]) -> tuple[np.ndarray, list[int]]:
    """What this rank receives, and how many rows from whom."""
    parts = []
    for sender in here.ranks:
        start = sum(splits[sender][: here.rank])
        parts.append(tensors[sender][start : start + splits[sender][here.rank]])
    return np.concatenate(parts), [splits[sender][here.rank] for sender in here.ranks]


@check(dtype=DTYPES)
def each_rank_gets_its_part_from_everybody(here: Here, dtype: str) -> None:
    n = here.size
    cases: list[tuple[list[list[int]], tuple[int, ...]]] = [
        ([[2] * n] * n, ()),
        ([[1 + (s + t) % 3 for t in range(n)] for s in range(n)], (3,)),
        ([[s if t == n - 1 else 0 for t in range(n)] for s in range(n)], (2, 2)),
        ([[0] * n] * n, (4,)),
        ([[(s * 500 + t * 7) for t in range(n)] for s in range(n)], (3,)),
        ([[5 if s == t else 0 for t in range(n)] for s in range(n)], ()),
        ([[2] * n] * n, (0,)),
    ]
    for number, (splits, rest) in enumerate(cases):
        # In the second case rows are left over: they go nowhere.
        spare = 2 if number == 1 else 0
        tensors = [here.data(dtype, (sum(splits[s]) + spare, *rest), s, number) for s in here.ranks]
        want, rows = _exchange(here, tensors, splits)
        mine, my_splits = tensors[here.rank], splits[here.rank]
        for given in (my_splits, np.array(my_splits, np.int32), np.array(my_splits, np.int64), tuple(my_splits)):
            got, received = hvd.alltoall(mine, splits=given)
            here.close(got, want, f"case {number}", exact=True)
            assert received.tolist() == rows and received.dtype == np.int32
        handle = hvd.alltoall_async(mine, splits=my_splits, name=f"{here.check}.{number}")
        got, received = hvd.synchronize(handle)
        here.close(got, want, f"async case {number}", exact=True)
        assert received.tolist() == rows


@check()
def without_splits_parts_are_equal_and_there_is_one_result(here: Here) -> None:
    n = here.size
    tensors = [here.data("int32", (3 * n, 2), s) for s in here.ranks]
    want, rows = _exchange(here, tensors, [[3] * n] * n)
    got = hvd.alltoall(tensors[here.rank])
    here.close(got, want, exact=True)
    pair = hvd.synchronize(hvd.alltoall_async(tensors[here.rank]))
    here.close(pair[0], want, exact=True)
    assert pair[1].tolist() == rows
    here.close(hvd.alltoall(np.empty((0, 3), np.float32)), np.empty((0, 3), np.float32), exact=True)


@check(dtype=("uint8", "float64"), seconds=30)
def parts_that_cross_chunks(here: Here, dtype: str) -> None:
    n = here.size
    unit = 262144 // dtype_of(dtype).itemsize
    splits = [[unit // 2 + 1 + s * 1000 + t for t in range(n)] for s in range(n)]
    tensors = [here.data(dtype, (sum(splits[s]),), s) for s in here.ranks]
    want, rows = _exchange(here, tensors, splits)
    got, received = hvd.alltoall(tensors[here.rank], splits[here.rank])
    here.close(got, want, exact=True)
    assert received.tolist() == rows


@check(tags=["engine"])
def a_name_may_come_back_with_other_splits(here: Here) -> None:
    n = here.size
    for step in range(10):
        splits = [[1 + (step // (s + 1) + t) % 3 for t in range(n)] for s in range(n)]
        tensors = [here.data("float32", (3 * n,), s, step) for s in here.ranks]
        want, rows = _exchange(here, tensors, splits)
        got, received = hvd.alltoall(tensors[here.rank], splits[here.rank], name="parts")
        here.close(got, want, f"step {step}", exact=True)
        assert received.tolist() == rows


@check()
def wrong_splits_are_refused_at_the_call(here: Here) -> None:
    n = here.size
    rows = np.ones((2 * n, 2), np.float32)
    for splits in ([1] * (n + 1), [], [-1] + [1] * (n - 1), [2 * n] * n + [0], [3 * n] + [0] * (n - 1)):
        with raises(ValueError, "splits"):
            hvd.alltoall(rows, splits)
    for splits in ([1.0] * n, [[1] * n], np.ones((n, 1), np.int32), "a" * n):
        with raises(ValueError, "splits"):
            hvd.alltoall(rows, splits)
    if n > 1:
        with raises(ValueError, "divisible"):
            hvd.alltoall(np.ones(n + 1))
    with raises(ValueError, "without dimensions"):
        hvd.alltoall(np.float32(1))
    assert hvd.alltoall(rows).shape == (2 * n, 2)
