"""hvdlite.torch: what is wrong is said at the call; names and handles behave as Horovod's."""

from __future__ import annotations

import time

import numpy as np
import torch
from machine import within

import hvdlite.torch as hvd
from checks import check
from checks.here import SUM, Here, raises


def _still_works(here: Here) -> None:
    assert hvd.allreduce(torch.ones(1), op=SUM).item() == here.size


@check()
def what_is_no_tensor_is_a_type_error(here: Here) -> None:
    for wrong in (None, 1.0, [1.0], np.ones(3), "text"):
        for call in (
            hvd.allreduce,
            hvd.allreduce_,
            hvd.allreduce_async,
            hvd.allgather,
            hvd.alltoall,
            hvd.reducescatter,
        ):
            with raises(TypeError, "torch.Tensor"):
                call(wrong)
        with raises(TypeError):
            hvd.broadcast(wrong, 0)
    for call in (hvd.grouped_allreduce, hvd.grouped_allreduce_async_, hvd.grouped_allgather, hvd.grouped_reducescatter):
        with raises(TypeError, "list"):
            call(torch.ones(3))
        with raises(TypeError):
            call([torch.ones(3), None])
    _still_works(here)


@check()
def a_dtype_without_sums_is_a_value_error(here: Here) -> None:
    wrong = [torch.ones(2, dtype=torch.complex64), torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)]
    if hasattr(torch, "float8_e5m2"):
        wrong.append(torch.ones(2).to(torch.float8_e5m2))
    for each in wrong:
        with raises(ValueError, "is not supported"):
            hvd.allreduce(each)
        with raises(ValueError, "is not supported"):
            hvd.allgather_async(each)
    _still_works(here)


@check()
def wrong_splits_are_a_value_error_here_and_now(here: Here) -> None:
    rows = torch.ones(2 * here.size, 2)
    good = [2] * here.size
    for wrong in ([0.5] * here.size, torch.tensor(good, dtype=torch.int64), torch.tensor([good], dtype=torch.int32)):
        with raises(ValueError, "int32"):
            hvd.alltoall(rows, wrong)
    for wrong in ([2] * (here.size + 1), [3] * here.size, [-1] * here.size, []):
        with raises(ValueError, "splits"):
            hvd.alltoall(rows, wrong)
    if here.size > 1:
        with raises(ValueError, "divisible"):
            hvd.alltoall(torch.ones(here.size + 1))
    with raises(ValueError):
        hvd.allgather(torch.tensor(1.0))
    _still_works(here)


@check(min_ranks=2)
def who_is_not_in_the_set_is_told_at_once(here: Here) -> None:
    subset = hvd.add_process_set([0])
    if here.rank == 0:
        assert hvd.allreduce(torch.ones(2), op=SUM, process_set=subset).tolist() == [1, 1]
    else:
        for call in (
            lambda: hvd.allreduce(torch.ones(2), process_set=subset),
            lambda: hvd.allgather_async(torch.ones(2), process_set=subset),
            lambda: hvd.reducescatter(torch.ones(2), process_set=subset),
            lambda: hvd.grouped_allreduce([torch.ones(2)], process_set=subset),
            lambda: hvd.broadcast_(torch.ones(2), 0, process_set=subset),
        ):
            with raises(ValueError):
                call()
    with raises(ValueError, "registered"):
        hvd.allreduce(torch.ones(2), process_set=hvd.ProcessSet([0]))
    hvd.remove_process_set(subset)
    _still_works(here)


@check(min_ranks=2)
def ranks_that_disagree_hear_who_sent_what(here: Here) -> None:
    with raises(hvd.HorovodInternalError, "rank 0 sent shape [2]", "sent shape [3]", "'torn'"):
        hvd.allreduce(torch.ones(2 + min(here.rank, 1)), name="torn")
    dtype = torch.float32 if here.rank == 0 else torch.bfloat16
    with raises(hvd.MismatchError, "float32", "bfloat16"):
        hvd.allreduce(torch.ones(2, dtype=dtype), name="torn")
    leaf = torch.ones(2 + min(here.rank, 1), requires_grad=True)
    with raises(hvd.MismatchError):
        hvd.allreduce(leaf, name="torn")
    for call in (hvd.allgather, hvd.alltoall, hvd.reducescatter):
        with raises(hvd.MismatchError, "rank 0 sent dtype float32", "sent dtype bfloat16", "'torn'"):
            call(torch.ones(2 * here.size, dtype=dtype), name="torn")
    with raises(hvd.MismatchError, "prescale_factor 0.5", "prescale_factor 1 "):
        hvd.allreduce(torch.ones(2), name="torn", prescale_factor=0.5 if here.rank == 0 else 1.0)
    with raises(hvd.MismatchError, "op Sum", "op Max"):
        hvd.allreduce(torch.ones(2), name="torn", op=hvd.Sum if here.rank == 0 else hvd.Max)
    with raises(hvd.MismatchError, "rank 0 named root 0", "named root 1"):
        hvd.broadcast(torch.ones(2), min(here.rank, 1), name="torn")
    _still_works(here)


@check(min_ranks=2)
def a_name_that_is_under_way_is_refused(here: Here) -> None:
    if here.rank == 0:
        handle = hvd.allreduce_async(torch.ones(3), op=SUM, name="same")
        with raises(ValueError, "same") as caught:
            hvd.allreduce_async_(torch.ones(3), op=SUM, name="same")
        assert not isinstance(caught[0], RuntimeError)
        hvd.barrier()
    else:
        hvd.barrier()
        handle = hvd.allreduce_async(torch.ones(3), op=SUM, name="same")
    assert hvd.synchronize(handle).tolist() == [here.size] * 3


@check()
def a_handle_ends_with_its_synchronize(here: Here) -> None:
    handle = hvd.allreduce_async(torch.ones(3), op=SUM)
    deadline = time.monotonic() + within(10)
    while not hvd.poll(handle):
        assert time.monotonic() < deadline
    assert hvd.synchronize(handle).tolist() == [here.size] * 3
    assert hvd.synchronize(handle) is None and hvd.synchronize(10**9) is None
    with raises(ValueError, "each handle can be synchronized once"):
        hvd.poll(handle)


@check()
def handles_that_are_forgotten_do_no_harm(here: Here) -> None:
    for i in range(20):
        hvd.allreduce_async_(torch.ones(1000), name=f"forgotten.{i}")
        hvd.allgather_async(torch.ones(10))
        hvd.grouped_allreduce_async([torch.ones(3)] * 2)
    hvd.barrier()
    _still_works(here)


@check(min_ranks=2)
def whoever_joins_counts_as_zeros(here: Here) -> None:
    if here.rank == 0:
        got = hvd.allreduce(torch.ones(3), op=hvd.Average, name="uneven")
        torch.testing.assert_close(got, torch.full((3,), 1 / here.size))
    last = hvd.join()
    assert hvd.allgather(torch.tensor([last])).tolist() == [last] * here.size


@check()
def two_hundred_in_another_order_on_every_rank(here: Here) -> None:
    order = here.rng(here.rank).permutation(200)
    handles = {
        int(i): hvd.allreduce_async_(torch.full((1 + int(i) * 37 % 500,), float(i + here.rank)), op=SUM, name=f"s.{i}")
        for i in order
    }
    for i in here.rng(here.rank, "wait").permutation(200):
        assert (hvd.synchronize(handles[int(i)]) == sum(here.ranks) + here.size * i).all()
