"""alltoall with even, uneven and empty parts."""

from __future__ import annotations

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import Here, raises


def _exchange(here: Here, tensors: list[np.ndarray], splits: list[list[int]]) -> tuple[np.ndarray, list[int]]:
    """What this rank receives, and how many rows from whom."""
    parts = []
    for sender in here.ranks:
        start = sum(splits[sender][: here.rank])
        parts.append(tensors[sender][start : start + splits[sender][here.rank]])
    return np.concatenate(parts), [splits[sender][here.rank] for sender in here.ranks]


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
