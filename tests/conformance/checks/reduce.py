"""reduce: the root gets the reduction, and every other rank its own tensor."""

from __future__ import annotations

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import ADASUM, AVERAGE, SUM, Here, raises


@check()
def a_scalar_stays_one_and_the_default_is_the_average(here: Here) -> None:
    got = hvd.reduce(np.float64(here.rank), 0)
    assert np.shape(got) == ()
    assert got == (sum(here.ranks) / here.size if here.rank == 0 else here.rank)


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
