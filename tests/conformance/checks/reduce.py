"""reduce: the root gets the reduction, and every other rank its own tensor."""

from __future__ import annotations

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import ADASUM, AVERAGE, DTYPES, OPS, SUM, Here, raises, reference


def _expect(here: Here, root: int, got: np.ndarray, inputs: list[np.ndarray], op: int, why: str) -> None:
    if here.rank == root:
        here.close(got, reference(inputs, op), why)
    else:
        assert np.array_equal(got.view(np.uint8), inputs[here.rank].view(np.uint8)), why


@check(dtype=DTYPES)
def the_root_gets_the_reduction(here: Here, dtype: str) -> None:
    for number, shape in enumerate([(1,), (7,), (2, 3), (0,), (0, 3), (4099, 3)]):
        root = number % here.size
        for label, op in OPS.items():
            inputs = here.everyones(dtype, shape, label, op=op)
            mine = inputs[here.rank].copy()
            got = hvd.reduce(mine, root, op=op)
            _expect(here, root, got, inputs, op, f"{label} of {shape}")
            handle = hvd.reduce_async(mine, root, op=op, name=f"{here.check}.{label}")
            _expect(here, root, hvd.synchronize(handle), inputs, op, f"async {label} of {shape}")


@check(dtype=("bfloat16", "float32"), seconds=30)
def tensors_that_cross_chunks(here: Here, dtype: str) -> None:
    for root in range(here.size):
        inputs = here.everyones(dtype, ((3 << 20) // 4 + 7,), root)
        _expect(here, root, hvd.reduce(inputs[here.rank], root, op=SUM), inputs, SUM, f"to {root}")


@check()
def a_scalar_stays_one_and_the_default_is_the_average(here: Here) -> None:
    got = hvd.reduce(np.float64(here.rank), 0)
    assert np.shape(got) == ()
    assert got == (sum(here.ranks) / here.size if here.rank == 0 else here.rank)


@check()
def factors_are_applied(here: Here) -> None:
    got = hvd.reduce(np.full(3, here.rank + 1.0), 0, op=SUM, prescale_factor=2.0, postscale_factor=0.25)
    if here.rank == 0:
        assert got.tolist() == [sum(r + 1.0 for r in here.ranks) / 2] * 3


@check(min_ranks=2)
def several_at_once_to_different_roots(here: Here) -> None:
    started = [hvd.reduce_async(np.full(5, here.rank + i), i % here.size, op=SUM, name=f"r.{i}") for i in range(20)]
    for i, handle in enumerate(started):
        whole = sum(r + i for r in here.ranks)
        want = whole if here.rank == i % here.size else here.rank + i
        assert hvd.synchronize(handle).tolist() == [want] * 5


@check(min_ranks=2)
def roots_that_differ_are_a_mismatch(here: Here) -> None:
    with raises(hvd.MismatchError, "root"):
        hvd.reduce(np.ones(3), min(here.rank, 1), name="differ")


@check()
def what_makes_no_sense_is_refused_at_the_call(here: Here) -> None:
    with raises(ValueError, "root_rank 99"):
        hvd.reduce(np.ones(3), 99)
    with raises((ValueError, NotImplementedError), "reduce"):
        hvd.reduce(np.ones(3), 0, op=ADASUM)
    assert hvd.allreduce(np.ones(1), op=AVERAGE) == 1.0
