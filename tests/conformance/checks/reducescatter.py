"""reducescatter: earlier ranks get the odd rows."""

from __future__ import annotations

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import ADASUM, AVERAGE, DTYPES, INTEGERS, OPS, SUM, Here, dtype_of, raises, reference


def _mine(here: Here, whole: np.ndarray) -> np.ndarray:
    rows = whole.shape[0]
    shares = [rows // here.size + (r < rows % here.size) for r in here.ranks]
    start = sum(shares[: here.rank])
    return whole[start : start + shares[here.rank]]


@check(dtype=DTYPES)
def each_rank_gets_its_rows_of_the_reduction(here: Here, dtype: str) -> None:
    n = here.size
    shapes = [(n,), (2 * n, 3), (2 * n + 1,), (1, 4), (max(n - 1, 1), 2, 2), (0,), (0, 3), (n, 0), (4099, 3)]
    for label, op in OPS.items():
        for shape in shapes:
            inputs = here.everyones(dtype, shape, label, op=op)
            want = _mine(here, reference(inputs, op))
            got = hvd.reducescatter(inputs[here.rank], op=op)
            here.close(got, want, f"{label} of {shape}")
        handle = hvd.reducescatter_async(inputs[here.rank], op=op, name=f"{here.check}.{label}")
        here.close(hvd.synchronize(handle), want, f"async {label}")


@check(dtype=("int8", "bfloat16", "float32"), seconds=30)
def tensors_that_cross_chunks(here: Here, dtype: str) -> None:
    for rows in (262144 // 4 + 1, (3 << 20) // dtype_of(dtype).itemsize + 7):
        inputs = here.everyones(dtype, (rows,))
        here.close(hvd.reducescatter(inputs[here.rank], op=SUM), _mine(here, reference(inputs, SUM)))


@check(dtype=("int32", "float16", "float64"))
def scale_factors_are_applied_before_and_after(here: Here, dtype: str) -> None:
    for pre, post in ((0.5, 1.0), (1.0, 0.25), (3.0, 1 / 3)):
        inputs = here.everyones(dtype, (2 * here.size + 1, 3))
        got = hvd.reducescatter(inputs[here.rank], op=AVERAGE, prescale_factor=pre, postscale_factor=post)
        here.close(got, _mine(here, reference(inputs, AVERAGE, pre, post)), f"{pre} and {post}")


@check(tags=["engine"])
def groups(here: Here) -> None:
    shapes = [(3, 2), (here.size,), (7, 5), (0, 2), (5000,)]
    for dtype in ("float32", *INTEGERS[:2]):
        inputs = [here.everyones(dtype, shape) for shape in shapes]
        mine = [each[here.rank] for each in inputs]
        for name in (None, f"g.{dtype}", f"g.{dtype}"):
            for got, each in zip(hvd.grouped_reducescatter(mine, name=name, op=SUM), inputs, strict=True):
                here.close(got, _mine(here, reference(each, SUM)))
        results = hvd.synchronize(hvd.grouped_reducescatter_async(mine))
        for got, each in zip(results, inputs, strict=True):
            here.close(got, _mine(here, reference(each, AVERAGE)))


@check()
def the_default_is_the_average(here: Here) -> None:
    inputs = here.everyones("float32", (here.size * 2, 2))
    here.close(hvd.reducescatter(inputs[here.rank]), _mine(here, reference(inputs, AVERAGE)))


@check()
def what_cannot_be_scattered_is_refused_at_the_call(here: Here) -> None:
    with raises(ValueError, "without dimensions"):
        hvd.reducescatter(np.float32(3))
    with raises(ValueError, "Adasum"):
        hvd.reducescatter(np.ones(here.size), op=ADASUM)
    with raises(ValueError):
        hvd.grouped_reducescatter([np.ones(4), np.array(1.0)])
    for op in (6, -1):
        with raises(ValueError):
            hvd.reducescatter(np.ones(here.size), op=op)
    assert hvd.reducescatter(np.ones(here.size), op=SUM).tolist() == [here.size]
