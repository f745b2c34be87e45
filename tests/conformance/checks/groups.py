"""Groups: ready together, travelling together, failing together."""

from __future__ import annotations

import time

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import SUM, Here, raises, reference


@check(tags=["engine"])
def members_may_have_different_dtypes_and_sizes(here: Here) -> None:
    cases = [
        ("float32", (5,)),
        ("int8", (3, 3)),
        ("float32", (70_000,)),
        ("bfloat16", ()),
        ("bool", (0,)),
    ]
    inputs = [here.everyones(dtype, shape) for dtype, shape in cases]
    for _ in range(3):
        results = hvd.grouped_allreduce([each[here.rank] for each in inputs], op=SUM, name="mixed")
        assert isinstance(results, list)
        for got, each in zip(results, inputs, strict=True):
            here.close(got, reference(each, SUM))


@check(tags=["engine"])
def a_plan_reduces_the_same_tensors_again_and_again(here: Here) -> None:
    tensors = [np.zeros(5, np.float32), np.zeros((2, 3), np.float32), np.zeros(70_000, np.float32)]
    plans = [hvd.plan(tensors, op=SUM), hvd.plan([np.zeros(4)], name="plan of its own")]
    with raises(RuntimeError, "call start() first"):
        plans[0].wait()
    for step in range(4):
        for tensor in tensors:
            tensor[...] = here.rank + step
        plans[1].tensors[0][...] = 1
        for plan in plans:
            plan.start()
        with raises(RuntimeError, "in flight already", "call wait() first"):
            plans[0].start()
        assert plans[1].wait() == plans[1].tensors
        assert plans[0].wait() == tensors
        with raises(RuntimeError, "call start() first"):
            plans[0].poll()
        for tensor in tensors:
            assert (tensor == sum(range(here.size)) + here.size * step).all()
        assert (plans[1].tensors[0] == 1).all()  # the average
    for wrong, error in (([], ValueError), (np.ones(3), TypeError)):
        with raises(error):
            hvd.plan(wrong)


@check(min_ranks=2, tags=["engine"])
def a_plan_that_fails_can_be_started_again(here: Here) -> None:
    other = here.rank == here.size - 1
    plan = hvd.plan([np.ones(3), np.ones(4 if other else 5)], op=SUM, name="unequal")
    for _ in range(2):
        plan.start()
        with raises(hvd.MismatchError, "unequal_2of2", "sent shape [4]", "sent shape [5]"):
            plan.wait()


@check(min_ranks=2, tags=["engine"])
def a_group_of_one_dtype_is_one_request(here: Here) -> None:
    def asked(*groups: list[np.ndarray]) -> float:
        def total() -> float:
            counters = hvd.metrics()
            return counters["requests_in_full"] + counters["requests_by_slot"]

        before = total()
        for tensors in groups:
            hvd.grouped_allreduce(tensors, op=SUM, name="counted")
        return total() - before

    fuses = here.environment.get("HVDLITE_FUSION_THRESHOLD") != "0"
    assert asked([np.ones(3)] * 7, [np.ones(3)] * 7) == (2 if fuses else 14)
    assert asked([np.ones(3), np.ones(3, np.float32)]) == 2


@check(min_ranks=2, tags=["engine"])
def groups_whose_dtypes_differ_between_ranks_are_a_mismatch(here: Here) -> None:
    # On one rank the group is one operation, on the others two.
    odd = np.float32 if here.rank == 0 else np.float64
    for _ in range(2):
        with raises(
            hvd.MismatchError, "odd_2of2", "rank 0 sent dtype float32", "sent dtype float64"
        ):
            hvd.grouped_allreduce([np.ones(2), np.ones(2, odd)], op=SUM, name="odd")
        hvd.grouped_allreduce([np.ones(2), np.ones(2)], op=SUM, name="odd")


@check(min_ranks=2, tags=["engine"])
def nothing_of_a_group_happens_before_all_of_it_is_there(here: Here) -> None:
    # Rank 0 submits the second group late; single operations submitted meanwhile are not held up.
    first = hvd.grouped_allreduce_async([np.ones(3), np.ones(4)], op=SUM, name="held.a")
    if here.rank == 0:
        assert (hvd.allreduce(np.ones(1), op=SUM, name="held.single") == here.size).all()
        time.sleep(0.05)  # span: it comes late
    second = hvd.grouped_allreduce_async([np.full(3, 2.0)] * 3, op=SUM, name="held.b")
    if here.rank != 0:
        assert (hvd.allreduce(np.ones(1), op=SUM, name="held.single") == here.size).all()
    assert all((t == 2 * here.size).all() for t in hvd.synchronize(second))
    assert all((t == here.size).all() for t in hvd.synchronize(first))


@check(min_ranks=2, tags=["engine"])
def lists_of_other_lengths_are_a_mismatch(here: Here) -> None:
    # All at once: the core looks for such groups a few times a second.
    kinds = (
        hvd.grouped_allreduce_async,
        hvd.grouped_allgather_async,
        hvd.grouped_reducescatter_async,
    )
    for names in (("torn", None), ("torn",)):
        tensors = [np.ones(here.size)] * (2 if here.rank == 0 else 3)
        for handle in [start(tensors, name=name) for name in names for start in kinds]:
            with raises(
                hvd.MismatchError, "rank 0 put it into a group of 2", "put it into a group of 3"
            ):
                hvd.synchronize(handle)
        for start in kinds:
            assert [len(hvd.synchronize(start(tensors[:2], name=name))) for name in names] == [
                2
            ] * len(names)


@check(min_ranks=2, tags=["engine"])
def one_disagreement_fails_the_whole_group_and_nothing_else(here: Here) -> None:
    for step in range(3):
        other = hvd.allreduce_async(np.ones(7), op=SUM, name="bystander")
        wrong = here.size - 1
        tensors = [np.ones(3), np.ones(5 if here.rank == wrong else 4), np.ones(2)]
        handle = hvd.grouped_allreduce_async(tensors, op=SUM, name="torn")
        with raises(hvd.MismatchError, "2of3", "[5]", "[4]", f"rank {wrong}") as caught:
            hvd.synchronize(handle)
        here.same_on_all_ranks(str(caught[0]))
        assert (hvd.synchronize(other) == here.size).all()
        good = hvd.grouped_allreduce([np.ones(3), np.ones(4), np.ones(2)], op=SUM, name="torn")
        assert [len(t) for t in good] == [3, 4, 2] and all((t == here.size).all() for t in good), (
            step
        )


@check(min_ranks=2)
def a_group_with_an_outstanding_name_is_refused_as_a_whole(here: Here) -> None:
    handle = None
    if here.rank == 0:
        handle = hvd.grouped_allreduce_async([np.ones(2), np.ones(3)], op=SUM, name="twice")
        with raises(hvd.DuplicateNameError, "twice"):
            hvd.grouped_allreduce_async([np.ones(2), np.ones(3)], op=SUM, name="twice")
        hvd.barrier()
    else:
        hvd.barrier()
        handle = hvd.grouped_allreduce_async([np.ones(2), np.ones(3)], op=SUM, name="twice")
    assert [t.tolist() for t in hvd.synchronize(handle)] == [[here.size] * 2, [here.size] * 3]


@check()
def a_group_with_a_wrong_member_leaves_nothing_behind(here: Here) -> None:
    with raises(TypeError):
        hvd.grouped_allreduce([np.ones(2), "no tensor"], name="part")
    with raises(TypeError):
        hvd.grouped_allreduce([np.ones(2), np.ones(2, np.complex64)], name="part")
    good = hvd.grouped_allreduce([np.ones(2), np.ones(2)], op=SUM, name="part")
    assert all((t == here.size).all() for t in good)


@check(tags=["engine"])
def a_group_may_be_larger_than_the_fusion_threshold(here: Here) -> None:
    tensors = [np.full(40_000 + i, float(here.rank), np.float32) for i in range(12)]
    for name in (None, "large", "large"):
        for got in hvd.grouped_allreduce(tensors, op=SUM, name=name):
            assert (got == sum(here.ranks)).all()
