"""Process sets: subsets that communicate among themselves."""

from __future__ import annotations

import itertools

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import AVERAGE, SUM, Here, raises, reference


def _subsets(here: Here) -> list[list[int]]:
    """Some subsets of at least one rank that are not the whole."""
    everything = [
        list(c) for n in range(1, here.size) for c in itertools.combinations(range(here.size), n)
    ]
    return everything[:: max(1, len(everything) // 5)]


@check(min_ranks=2)
def every_operation_works_within_a_subset(here: Here) -> None:
    for ranks in _subsets(here):
        subset = hvd.add_process_set(hvd.ProcessSet(reversed(ranks)))
        assert subset.ranks == ranks and subset.included() == (here.rank in ranks)
        assert subset.size() == len(ranks)
        if here.rank in ranks:
            me = ranks.index(here.rank)
            assert subset.rank() == me
            for shape in ((), (5,), (70_000,)):
                inputs = [here.data("float32", shape, r, tuple(ranks)) for r in ranks]
                got = hvd.allreduce(inputs[me], process_set=subset)
                here.close(got, reference(inputs, AVERAGE), f"average in {ranks}", exact=None)
            rows = [here.data("int32", (r + 1, 2), r) for r in ranks]
            here.close(
                hvd.allgather(rows[me], process_set=subset), np.concatenate(rows), exact=True
            )
            for root in ranks:
                got = hvd.broadcast(np.full(3, here.rank), root_rank=root, process_set=subset)
                assert (got == root).all()
            got = hvd.alltoall(np.full(len(ranks), here.rank), process_set=subset)
            assert got.tolist() == ranks
            got = hvd.reducescatter(np.ones((len(ranks), 2)), op=SUM, process_set=subset)
            assert got.tolist() == [[len(ranks)] * 2]
            assert len(hvd.grouped_allreduce([np.ones(1)] * 3, process_set=subset)) == 3
            hvd.barrier(process_set=subset)
        else:
            with raises(ValueError, "is not a member of process set"):
                subset.rank()
        assert hvd.remove_process_set(subset) is True
        assert subset.process_set_id is None and subset.size() is None


@check(min_ranks=2)
def overlapping_sets_may_be_used_in_opposite_orders(here: Here) -> None:
    first = hvd.add_process_set([0])
    second = (
        hvd.add_process_set([here.size - 1])
        if here.size == 2
        else hvd.add_process_set(range(1, here.size))
    )
    sets = [s for s in (hvd.global_process_set, first, second) if s.included()]
    if here.rank % 2:
        sets.reverse()
    for step in range(10):
        handles = [
            (hvd.allreduce_async(np.full(2000, 1.0), op=SUM, name="same name", process_set=s), s)
            for s in sets
        ]
        for handle, s in reversed(handles) if step % 2 else handles:
            assert (hvd.synchronize(handle) == s.size()).all()
    assert hvd.remove_process_set(second) and hvd.remove_process_set(first)


@check(min_ranks=3)
def a_blocking_operation_in_one_set_does_not_hold_up_another(here: Here) -> None:
    # 0 and 1 meet in A while 1 and 2 meet in B, each rank starting at another end.
    a, b = hvd.add_process_set([0, 1]), hvd.add_process_set([1, 2])
    for _ in range(20):
        pending = []
        if a.included():
            pending.append(hvd.allreduce_async(np.ones(5000), op=SUM, name="a", process_set=a))
        if b.included():
            assert (hvd.allreduce(np.ones(5000), op=SUM, name="b", process_set=b) == 2).all()
        for handle in pending:
            assert (hvd.synchronize(handle) == 2).all()
    hvd.remove_process_set(a)
    hvd.remove_process_set(b)


@check(min_ranks=2)
def ids_of_removed_sets_are_used_again_oldest_first(here: Here) -> None:
    base = hvd.add_process_set([0])
    assert base.process_set_id is not None and base.process_set_id > 0
    others = [hvd.add_process_set([r]) for r in range(1, here.size)]
    ids = [s.process_set_id for s in (base, *others)]
    assert len(set(ids)) == len(ids)
    for s in (base, *others):
        assert hvd.remove_process_set(s) is True
    again = [hvd.add_process_set([r]) for r in here.ranks]
    assert [s.process_set_id for s in again] == ids
    assert hvd.allgather_object([s.process_set_id for s in again]) == [ids] * here.size
    for s in again:
        hvd.remove_process_set(s)
    # A removed object can be registered again.
    assert hvd.add_process_set(base) is base
    if base.included():
        assert hvd.allreduce(1.0, op=SUM, process_set=base) == 1
    hvd.remove_process_set(base)


@check()
def what_makes_no_sense_is_refused(here: Here) -> None:
    for wrong, words in (
        ([], "at least one"),
        ([0, 0], "twice"),
        ([here.size], "do not exist"),
        ([-1], "do not exist"),
    ):
        with raises(ValueError, words):
            hvd.add_process_set(wrong)
    for wrong in (["a"], [0.5], [True]):
        with raises(ValueError):
            hvd.ProcessSet(wrong)
    with raises(ValueError, "already"):
        hvd.add_process_set(range(here.size))
    with raises(ValueError, "already"):
        hvd.add_process_set(list(reversed(range(here.size))))
    assert hvd.remove_process_set(hvd.global_process_set) is False
    assert hvd.remove_process_set(hvd.ProcessSet([0])) is False
    fresh = hvd.ProcessSet([0])
    assert (fresh.size(), fresh.rank(), fresh.included()) == (None, None, here.rank == 0)
    assert str(fresh) == "ProcessSet(process_set_id=None, ranks=[0], mpi_comm=None)"
    with raises(ValueError, "not registered"):
        hvd.allreduce(np.ones(1), process_set=fresh)
    assert hvd.allreduce(1, op=SUM) == here.size


@check(min_ranks=2)
def ranks_that_name_different_sets_all_hear_of_it(here: Here) -> None:
    with raises(hvd.MismatchError, "[0]", "[1]", "process set") as caught:
        hvd.add_process_set([0] if here.rank == 0 else [1])
    here.same_on_all_ranks(str(caught[0]))
    good = hvd.add_process_set([1])
    assert hvd.allgather_object(good.process_set_id) == [good.process_set_id] * here.size
    hvd.remove_process_set(good)


@check(min_ranks=3)
def a_disagreement_within_a_set_names_global_ranks(here: Here) -> None:
    subset = hvd.add_process_set([1, 2])
    if subset.included():
        with raises(hvd.MismatchError, "rank 1 sent shape [3]", "rank 2 sent shape [4]"):
            hvd.allreduce(np.ones(2 + here.rank), name="global", process_set=subset)
        with raises(hvd.MismatchError, "rank 1 named root 1", "rank 2 named root 2"):
            hvd.broadcast(np.ones(2), here.rank, name="global", process_set=subset)
        assert (hvd.allreduce(np.ones(2), op=SUM, process_set=subset) == 2).all()
    hvd.remove_process_set(subset)


@check(min_ranks=2)
def an_operation_outstanding_in_a_set_that_is_removed_ends_with_an_error(here: Here) -> None:
    subset = (
        hvd.add_process_set(range(here.size - 1)) if here.size > 2 else hvd.add_process_set([0])
    )
    handle = None
    if here.rank == 0 and here.size > 2:
        handle = hvd.allreduce_async(np.ones(3), name="never", process_set=subset)
    hvd.remove_process_set(subset)
    if handle is not None:
        with raises((ValueError, hvd.HorovodInternalError), "removed"):
            hvd.synchronize(handle)
    assert hvd.allreduce(1, op=SUM) == here.size


@check(min_ranks=2)
def an_id_that_was_removed_is_unknown(here: Here) -> None:
    subset = hvd.add_process_set([0])
    stale = hvd.ProcessSet([0])
    stale.process_set_id = subset.process_set_id
    hvd.remove_process_set(subset)
    with raises(ValueError):
        stale.size()
    with raises(ValueError):
        hvd.allreduce(np.ones(1), process_set=stale)
    assert hvd.remove_process_set(stale) is False


@check(min_ranks=2, seconds=30)
def sets_come_and_go_without_leaving_memory_behind(here: Here) -> None:
    import os

    def shared() -> int:
        # The host's segment is a memfd: what it holds is charged to all who map it.
        total = 0
        for fd in os.listdir("/proc/self/fd"):
            try:
                if "memfd:hvdlite" in os.readlink(f"/proc/self/fd/{fd}"):
                    total += os.stat(f"/proc/self/fd/{fd}").st_blocks * 512
            except OSError:
                pass
        return total

    def once() -> None:
        subset = hvd.add_process_set([0, here.size - 1] if here.size > 2 else [0])
        if subset.included():
            hvd.allreduce(np.ones(100_000, np.float32), process_set=subset)
        hvd.remove_process_set(subset)

    for _ in range(3):
        once()
    hvd.barrier()
    before = shared()
    for _ in range(20):
        once()
    hvd.barrier()
    grown = shared() - before
    assert grown <= 4 << 20, (
        f"{grown >> 20} MiB of shared memory more after 20 sets were added and removed"
    )


@check(min_ranks=2)
def init_again_registers_sets(here: Here) -> None:
    known = hvd.add_process_set([0])
    fresh, same = hvd.ProcessSet([1]), hvd.ProcessSet([0])
    hvd.init(process_sets=[same, fresh])
    assert same.process_set_id == known.process_set_id and fresh.process_set_id is not None
    if here.size > 2:
        with raises(ValueError, "entry 1 of hvd.init"):
            hvd.init(process_sets=[[0], [0]])
        assert hvd.is_initialized()
    hvd.remove_process_set(fresh)
    hvd.remove_process_set(known)
