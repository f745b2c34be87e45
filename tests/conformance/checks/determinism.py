"""The same answer, every time and everywhere."""

from __future__ import annotations

import time

import numpy as np

import hvdlite as hvd
from checks import check, needs
from checks.here import ADASUM, AVERAGE, FLOATS, SUM, Here, dtype_of


@check(dtype=FLOATS, tags=["engine"])
def twenty_repetitions_give_the_same_bits(here: Here, dtype: str) -> None:
    for count in (17, 3000, 70_001):
        mine = here.data(dtype, (count,), here.rank)
        first = hvd.allreduce(mine, op=AVERAGE, name=f"r.{count}").tobytes()
        for _ in range(19):
            assert hvd.allreduce(mine, op=AVERAGE, name=f"r.{count}").tobytes() == first
        here.saw(np.frombuffer(first, np.uint8))
    here.settle()


@check(tags=["engine"])
def bits_do_not_depend_on_what_travels_along_or_when(here: Here) -> None:
    rng = here.rng(here.rank)
    tensors = [here.data("float32", (n,), here.rank, n) for n in (1, 7, 500, 9000, 65_537)]
    first: list[bytes] | None = None
    for step in range(20):
        order = rng.permutation(len(tensors))
        handles: list[int] = [0] * len(tensors)
        for i in order:
            handles[i] = hvd.allreduce_async(tensors[i], op=SUM, name=f"bits.{i}")
            if step % 4 == 3:
                time.sleep(float(rng.random()) * 1e-3)  # span: a moment that chance has picked
        results = [hvd.synchronize(handle).tobytes() for handle in handles]
        first = first or results
        if here.same_bits_always:
            assert results == first, f"step {step}"
    for result in first or []:
        here.saw(np.frombuffer(result, np.uint8))
    if here.same_bits_always:
        here.settle()


@check(dtype=FLOATS, tags=["engine"])
def a_tensor_has_the_same_sum_alone_and_in_any_company(here: Here, dtype: str) -> None:
    needs(here.same_bits_always, "sums in an order of hvdlite's own")
    small, large = (
        here.data(dtype, (1000,), here.rank, 1),
        here.data(dtype, (200_000,), here.rank, 2),
    )
    alone = hvd.allreduce(small, op=SUM).tobytes(), hvd.allreduce(large, op=SUM).tobytes()
    for company in ([small, large], [large, small], [np.ones(77, small.dtype), small, large]):
        results = [each.tobytes() for each in hvd.grouped_allreduce(company, op=SUM)]
        assert set(alone) <= set(results)


@check(dtype=FLOATS, tags=["engine"])
def a_tensor_has_the_same_adasum_alone_and_in_any_company(here: Here, dtype: str) -> None:
    common, own = here.rng(0), here.rng(here.rank, 1)
    tensors = [
        # Alike on all ranks, so that the last bits of the dot products count.
        (common.standard_normal(n) * (here.rank + 1) + own.standard_normal(n) / 8).astype(
            dtype_of(dtype)
        )
        for n in (3, 30_011, *range(100_001, 200_000, 20_011))
    ]
    alone = [hvd.allreduce(tensor, op=ADASUM).tobytes() for tensor in tensors]
    for step in (1, -1):
        together = hvd.grouped_allreduce(tensors[::step], op=ADASUM)[::step]
        assert [tensor.tobytes() for tensor in together] == alone
