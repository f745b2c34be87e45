"""alltoall with even, uneven and empty parts."""

from __future__ import annotations

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import Here


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
