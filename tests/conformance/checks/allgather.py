"""allgather, with parts of any size."""

from __future__ import annotations

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import Here, raises


def _parts(here: Here, dtype: str, rows: list[int], rest: tuple[int, ...], *key: object) -> list[np.ndarray]:
    return [here.data(dtype, (rows[r], *rest), r, *key) for r in here.ranks]


@check(tags=["engine"])
def groups_of_uneven_parts(here: Here) -> None:
    shapes = [(3, (2,), "float32"), (1, (), "int64"), (0, (5,), "float16"), (4000, (3,), "float32"), (2, (1,), "bool")]
    all_parts = [_parts(here, d, [rows + r for r in here.ranks], rest, d, rows) for rows, rest, d in shapes]
    mine = [parts[here.rank] for parts in all_parts]
    for name in (None, here.check, here.check):
        got = hvd.grouped_allgather(mine, name=name)
        for result, parts in zip(got, all_parts, strict=True):
            here.close(result, np.concatenate(parts), exact=True)
    got = hvd.synchronize(hvd.grouped_allgather_async(mine))
    for result, parts in zip(got, all_parts, strict=True):
        here.close(result, np.concatenate(parts), exact=True)


@check(tags=["engine"])
def a_name_may_come_back_with_other_rows(here: Here) -> None:
    for step in range(12):
        # Every rank changes at other steps, so that some send the slot and others the request in full.
        rows = [2 + (step // (r + 1)) % 3 for r in here.ranks]
        parts = _parts(here, "int32", rows, (2,), step)
        here.close(hvd.allgather(parts[here.rank], name="rows"), np.concatenate(parts), f"step {step}", exact=True)


@check()
def a_tensor_without_dimensions_is_refused(here: Here) -> None:
    with raises(ValueError, "without dimensions", "reshape"):
        hvd.allgather(np.float32(3))
    with raises(ValueError):
        hvd.allgather_async(np.array(3.0))
    with raises(ValueError):
        hvd.grouped_allgather([np.ones(3), np.array(3.0)])
    assert hvd.allgather(np.ones(1)).shape == (here.size,)


@check()
def input_that_is_not_contiguous(here: Here) -> None:
    parts = [here.data("float64", (9, 6), r)[::2, ::-1].T for r in here.ranks]
    here.close(hvd.allgather(parts[here.rank]), np.concatenate(parts), exact=True)


@check()
def results_outlive_everything_else(here: Here) -> None:
    import gc

    kept = [hvd.allgather(np.full((100, 3), r, np.float32), name="kept") for r in range(20)]
    gc.collect()
    for r, result in enumerate(kept):
        assert (result == r).all() and result.shape == (100 * here.size, 3)
