"""join: a rank without data takes part with zeros until all have joined."""

from __future__ import annotations

import time

import numpy as np
from machine import within

from checks import check, needs
from checks.api import api, hvd
from checks.here import DTYPES, SUM, Here, raises


@check(tags=["engine"])
def the_last_rank_to_join_is_returned_everywhere(here: Here) -> None:
    for last in here.ranks:
        if here.rank == last:
            # done only when all others have joined
            assert hvd.allreduce(api.ones(()), op=SUM, name="alone") == 1
        assert hvd.join() == last
    assert hvd.allreduce(api.ones(()), op=SUM) == here.size


@check(dtype=DTYPES)
def those_who_joined_contribute_zeros(here: Here, dtype: str) -> None:
    needs(dtype in api.dtypes, f"tensors of {dtype}")
    # Rank r has r + 1 steps of data.
    for count in (3, 20_000):
        for step in range(here.rank + 1):
            got = hvd.allreduce(api.ones(count, dtype), op=SUM, name=f"{here.check}.{count}")
            left = 1 if dtype == "bool" else here.size - step
            assert (api.array(got).astype("float64") == left).all(), (step, got)
        assert hvd.join() in here.ranks


@check(min_ranks=2, tags=["engine"])
def averages_still_divide_by_all(here: Here) -> None:
    if here.rank == 0:
        got = hvd.allreduce(api.full(5, 6.0), name="j.average")
        np.testing.assert_allclose(api.array(got), np.full(5, 6.0 / here.size), rtol=1e-6)
        assert hvd.allreduce(api.full(3, -2.0), op=hvd.Max, name="j.max").tolist() == [0.0] * 3
    assert hvd.join() == 0


@check(min_ranks=2, tags=["engine"])
def gathers_broadcasts_groups_and_barriers_work_with_those_who_joined(here: Here) -> None:
    for _ in range(3):
        if here.rank == here.size - 1:
            time.sleep(0.02)  # span: so that others join before it asks, too
            me = here.size - 1
            assert hvd.allgather(api.full((2, 3), me), name="j.gather").tolist() == [[me] * 3] * 2
            assert hvd.broadcast(api.full(4, 7), me, name="j.broadcast").tolist() == [7] * 4
            a, b = hvd.grouped_allreduce(
                [api.ones(3), api.ones(2, "int32")], op=SUM, name="j.group"
            )
            assert a.tolist() == [1] * 3 and b.tolist() == [1] * 2
            assert [t.shape for t in hvd.grouped_allgather([api.ones(3), api.ones((1, 2))])] == [
                (3,),
                (1, 2),
            ]
            hvd.barrier()
            assert hvd.allreduce(api.ones(100_000), op=hvd.Sum).sum() == 100_000
            assert hvd.allreduce(api.ones(5), op=hvd.Adasum).tolist() == [1] * 5
        assert hvd.join() == here.size - 1


@check(min_ranks=2)
def tensors_that_travel_together_keep_apart_on_those_who_joined(here: Here) -> None:
    """What passes through a joined rank on its way must not be mixed up there."""
    for joined in (0, here.size - 1, here.size // 2):
        for count in (10, 70_000):
            if here.rank != joined:
                mine = [api.full(count, 10.0 * (i + 1), "float32") for i in range(5)]
                others = here.size - 1
                root = (joined + 1) % here.size
                got = hvd.grouped_allreduce(mine, op=SUM, name=f"{here.check}.sum")
                assert [set(x.tolist()) for x in got] == [
                    {10.0 * (i + 1) * others} for i in range(5)
                ], got
                handles = [
                    hvd.broadcast_async(x + here.rank, root, name=f"{here.check}.{i}")
                    for i, x in enumerate(mine)
                ]
                sent = [set(hvd.synchronize(handle).tolist()) for handle in handles]
                assert sent == [{10.0 * (i + 1) + root} for i in range(5)], sent
                if others == 1:  # Adasum with zeros changes nothing
                    got = hvd.grouped_allreduce(mine, op=hvd.Adasum, name=f"{here.check}.adasum")
                    assert [set(x.tolist()) for x in got] == [{10.0 * (i + 1)} for i in range(5)], (
                        got
                    )
            hvd.join()


@check(min_ranks=2, tags=["engine"])
def what_would_lose_data_is_an_error_that_says_so(here: Here) -> None:
    last = here.size - 1
    if here.rank == last:
        time.sleep(0.02)  # span: so that others join before it asks, too
        with raises(hvd.MismatchError, "alltoall", "join()"):
            hvd.alltoall(api.ones(here.size), name="j.alltoall")
        with raises(hvd.MismatchError, "reducescatter", "join()"):
            hvd.reducescatter(api.ones(here.size), name="j.scatter")
        with raises(hvd.MismatchError, "rank 0", "root", "join()"):
            hvd.broadcast(api.ones(2), 0, name="j.root")
        with raises(hvd.MismatchError, "join()"):
            hvd.add_process_set([0])
        assert hvd.allreduce(api.ones(()), op=SUM) == 1
    assert hvd.join() == last
    assert hvd.allreduce(api.ones(()), op=SUM) == here.size
    assert hvd.alltoall(api.ones(here.size)).shape == (here.size,)
    assert hvd.reducescatter(api.ones(here.size), op=SUM).tolist() == [here.size]


@check(min_ranks=2)
def operations_already_outstanding_are_completed_by_a_join(here: Here) -> None:
    if here.rank == 0:
        handle = hvd.allreduce_async(api.ones(3), op=SUM, name="j.outstanding")
        time.sleep(0.02)  # span: in which it would be done
        assert not hvd.poll(handle) or here.size == 1
    hvd.barrier()
    last = hvd.join()
    assert last in here.ranks
    if here.rank == 0:
        assert hvd.synchronize(handle).tolist() == [1] * 3


@check(min_ranks=2, tags=["engine"])
def a_name_first_used_while_a_rank_had_joined_is_still_checked(here: Here) -> None:
    # The engine remembers 'late' from a round in which rank 0 took no part: what rank 0 passes
    # later must be compared.
    for shape in ((5,), (70_000,)):
        for odd in ((), (3,), (1,)):
            name = f"late.{len(shape)}.{shape[0]}.{len(odd)}.{sum(odd)}"
            if here.rank != 0:
                for _ in range(2):
                    hvd.allreduce(api.ones(shape, "float32"), op=SUM, name=name)
            hvd.join()
            mine = odd if here.rank == 0 else shape
            with raises(hvd.MismatchError, name):
                hvd.allreduce(api.ones(mine, "float32"), op=SUM, name=name)
            got = hvd.allreduce(api.ones(shape, "float32"), op=SUM, name=name)
            assert got.shape == shape and (got == here.size).all()


@check(min_ranks=2)
def nothing_can_be_submitted_between_join_and_its_end(here: Here) -> None:
    import threading

    if here.rank == 0:
        joined: list[int] = []
        thread = threading.Thread(target=lambda: joined.append(hvd.join()))
        thread.start()
        deadline = time.monotonic() + within(10)
        said = ""
        while not said and time.monotonic() < deadline:
            try:
                hvd.allreduce_async(api.ones(1), op=SUM, name="j.too late")
                time.sleep(0.01)  # poll
            except hvd.DuplicateNameError:
                time.sleep(0.01)  # poll
            except ValueError as error:
                said = str(error)
        assert "join()" in said
        hvd_store_flag(here)
        thread.join()
        assert joined and joined[0] in here.ranks
    else:
        wait_for_flag(here)
        hvd.join()
    hvd.barrier()


def _flag(here: Here) -> str:
    import os

    return os.path.join(os.getcwd(), f"flag.{here.check}")


def hvd_store_flag(here: Here) -> None:
    open(_flag(here), "w").close()


def wait_for_flag(here: Here) -> None:
    import os

    deadline = time.monotonic() + within(10)
    while not os.path.exists(_flag(here)):
        assert time.monotonic() < deadline
        time.sleep(0.005)  # poll


@check(tags=["engine"])
def joins_follow_one_another(here: Here) -> None:
    for epoch in range(10):
        steps = 1 + (here.rank + epoch) % here.size
        for step in range(steps):
            hvd.allreduce(api.ones(10), name=f"epoch.{step}")
        assert hvd.join() in here.ranks
