"""reducescatter: earlier ranks get the odd rows."""

from __future__ import annotations

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import ADASUM, AVERAGE, INTEGERS, SUM, Here, raises, reference


def _mine(here: Here, whole: np.ndarray) -> np.ndarray:
    rows = whole.shape[0]
    shares = [rows // here.size + (r < rows % here.size) for r in here.ranks]
    start = sum(shares[: here.rank])
    return whole[start : start + shares[here.rank]]


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
