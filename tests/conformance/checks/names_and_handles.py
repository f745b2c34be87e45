"""Names identify operations; handles stand for them."""

from __future__ import annotations

import threading
import time
from typing import Any

from machine import within

from checks import check
from checks.api import api, hvd
from checks.here import SUM, Here, in_threads, raises


@check(min_ranks=2, tags=["engine"])
def a_second_operation_of_the_same_name_is_refused_and_the_first_goes_on(here: Here) -> None:
    if here.rank == 0:
        handle = hvd.allreduce_async(api.ones(5), op=SUM, name="same")
        with raises(hvd.DuplicateNameError, "same", "synchronize") as caught:
            hvd.allreduce_async(api.ones(5), op=SUM, name="same")
        assert not isinstance(caught[0], RuntimeError)
        with raises(ValueError):
            hvd.allreduce(api.ones(7), op=SUM, name="same")
        assert not hvd.poll(handle)
        # Another kind of operation may have the same name.
        other = hvd.broadcast_async(api.ones(5), 0, name="same")
        hvd.barrier()
    else:
        hvd.barrier()
        handle = hvd.allreduce_async(api.ones(5), op=SUM, name="same")
        other = hvd.broadcast_async(api.ones(5), 0, name="same")
    assert (hvd.synchronize(handle) == here.size).all()
    assert (hvd.synchronize(other) == 1).all()
    assert (hvd.allreduce(api.ones(5), op=SUM, name="same") == here.size).all()


@check(tags=["engine"])
def operations_without_a_name_match_in_the_order_of_calls(here: Here) -> None:
    for _ in range(3):
        handles = [hvd.allreduce_async(api.full(i + 1, float(i)), op=SUM) for i in range(20)]
        gathers = [hvd.allgather_async(api.full(1, i)) for i in range(5)]
        for i, handle in enumerate(handles):
            assert hvd.synchronize(handle).tolist() == [i * here.size] * (i + 1)
        for i, handle in enumerate(gathers):
            assert hvd.synchronize(handle).tolist() == [i] * here.size
    for i in range(60):  # known from the fourth on
        got = hvd.allreduce(api.full(1 + i % 3, float(i)), op=SUM)
        assert got.tolist() == [i * here.size] * (1 + i % 3)


@check(tags=["engine"])
def two_hundred_tensors_in_another_order_on_every_rank(here: Here) -> None:
    for round_number in range(3):
        order = here.rng(here.rank, round_number).permutation(200)
        handles = {}
        for i in order:
            tensor = api.full(1 + (int(i) * 37) % 500, here.rank + i, "float32")
            handles[int(i)] = hvd.allreduce_async(tensor, op=SUM, name=f"shuffled.{i}")
        for i in here.rng(here.rank, round_number, "wait").permutation(200):
            got = hvd.synchronize(handles[int(i)])
            assert got.shape == (1 + (int(i) * 37) % 500,)
            assert (got == sum(here.ranks) + here.size * i).all(), i


@check()
def poll_turns_true_without_anybody_waiting(here: Here) -> None:
    handle = hvd.allreduce_async(api.ones(1000), op=SUM, name="polled")
    deadline = time.monotonic() + within(10)
    while not hvd.poll(handle):
        assert time.monotonic() < deadline
        time.sleep(0.001)  # poll
    assert (hvd.synchronize(handle) == here.size).all()
    with raises(ValueError, "each handle can be synchronized once"):
        hvd.poll(handle)
    assert hvd.synchronize(handle) is None
    for unknown in (10**9, -1):
        with raises(ValueError, str(unknown)):
            hvd.poll(unknown)
        assert hvd.synchronize(unknown) is None


@check(min_ranks=2)
def poll_is_false_while_a_rank_is_missing(here: Here) -> None:
    if here.rank == 0:
        handle = hvd.allreduce_async(api.ones(3), op=SUM, name="waiting")
        for _ in range(20):
            assert not hvd.poll(handle)
            time.sleep(0.002)  # span: in which it would be done
        hvd.barrier()
    else:
        hvd.barrier()
        handle = hvd.allreduce_async(api.ones(3), op=SUM, name="waiting")
    assert (hvd.synchronize(handle) == here.size).all()


@check(tags=["engine"])
def handles_that_nobody_waits_for_do_no_harm(here: Here) -> None:
    for i in range(30):
        hvd.allreduce_async(api.ones(100), name=f"forgotten.{i}")
        hvd.allgather_async(api.ones(10), name=f"forgotten.{i}")
        hvd.grouped_allreduce_async([api.ones(3)] * 2, name=f"forgotten.{i}")
    assert (hvd.allreduce(api.ones(3), op=SUM) == here.size).all()


@check(tags=["engine"])
def a_name_may_come_back_with_another_shape_dtype_and_op(here: Here) -> None:
    for step in range(15):
        shape = [(3,), (3, 4), (), (0,), (20_000,)][step % 5]
        dtype = ["float32", "int64", "float16"][step % 3]
        op = [hvd.Sum, hvd.Max][step % 2]
        got = hvd.allreduce(api.ones(shape, dtype), op=op, name="chameleon")
        assert got.shape == shape and api.array(got).dtype == dtype
        assert (got == (here.size if op == hvd.Sum else 1)).all()


@check(tags=["engine"])
def many_steps_over_the_same_names(here: Here) -> None:
    tensors = [api.full(1 + 50 * i, here.rank, "float32") for i in range(40)]
    for step in range(20):
        handles = [
            hvd.allreduce_async(t + step, op=SUM, name=f"layer.{i}") for i, t in enumerate(tensors)
        ]
        for handle in handles:
            assert (hvd.synchronize(handle) == sum(here.ranks) + here.size * step).all()


@check(tags=["engine"])
def more_names_than_the_cache_holds(here: Here) -> None:
    # With HVDLITE_CACHE_CAPACITY=2 nearly every announcement meets an eviction.
    for step in range(4):
        order = here.rng(here.rank, step).permutation(30)
        handles = {
            int(i): hvd.allreduce_async(api.full(3, i + step), op=SUM, name=f"evicted.{i}")
            for i in order
        }
        for i, handle in handles.items():
            assert (hvd.synchronize(handle) == (i + step) * here.size).all()
    rows = [
        hvd.allgather(api.full(here.rank + 1, s), name=f"evicted.rows.{s % 4}") for s in range(12)
    ]
    assert all(
        (r == s).all() and len(r) == sum(range(1, here.size + 1)) for s, r in enumerate(rows)
    )


@check(tags=["engine"])
def several_user_threads_at_once(here: Here) -> None:
    def work(thread: int) -> None:
        for step in range(25):
            name = f"thread.{thread}.{step % 3}"
            got = hvd.allreduce(api.full(50, thread + step, "float32"), op=SUM, name=name)
            assert (got == (thread + step) * here.size).all()
            handle = hvd.allreduce_async(
                api.full(5000, step), op=SUM, name=f"thread.{thread}.async"
            )
            rows = hvd.allgather(api.full(2, thread), name=f"thread.{thread}")
            assert (rows == thread).all()
            assert (hvd.synchronize(handle) == step * here.size).all()

    in_threads(6, work)


@check()
def one_thread_submits_and_another_waits(here: Here) -> None:
    handles = [hvd.allreduce_async(api.full(10, i), op=SUM, name=f"handed.{i}") for i in range(20)]
    results: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda i=i, h=h: results.__setitem__(i, hvd.synchronize(h)))
        for i, h in enumerate(handles)
    ]
    for thread in reversed(threads):
        thread.start()
    for thread in threads:
        thread.join()
    assert all((results[i] == i * here.size).all() for i in range(20))


@check(tags=["engine"])
def of_threads_that_wait_for_one_handle_one_gets_the_result(here: Here) -> None:
    handles = [
        hvd.allgather_async(api.full(1 + i, here.rank), name=f"shared.{i}") for i in range(40)
    ]
    taken: list[int] = []

    def work(thread: int) -> None:
        for i, handle in enumerate(handles):
            rows = hvd.synchronize(handle)
            if rows is not None:
                assert len(rows) == (1 + i) * here.size and rows[-1] == here.size - 1
                taken.append(i)

    in_threads(4, work)
    assert sorted(taken) == list(range(40))


@check()
def names_may_be_any_text(here: Here) -> None:
    for name in (
        "",
        " ",
        "ünï/cødé\n",
        "a" * 5000,
        "%s%d{}",
        "join",
        "barrier.noname.0",
        "noname.0",
    ):
        assert (hvd.allreduce(api.ones(2), op=SUM, name=name) == here.size).all(), name
    for wrong in (3, ["list"]):
        with raises(TypeError):
            hvd.allreduce(api.ones(2), name=wrong)
