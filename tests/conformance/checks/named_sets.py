"""Process sets with a name: their members alone add and remove them; other ranks do nothing."""

from __future__ import annotations

import threading

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import SUM, Here, raises


def _sum(process_set: hvd.ProcessSet, rank: int) -> list[int]:
    """Who takes part in an allreduce: the rank's bit of each."""
    total = int(hvd.allreduce(np.array([1 << rank]), op=SUM, process_set=process_set)[0])
    return [bit for bit in range(total.bit_length()) if total >> bit & 1]


@check(min_ranks=2)
def only_the_members_add_use_and_remove_a_named_set(here: Here) -> None:
    ranks = [here.size - 2, here.size - 1]
    if here.rank in ranks:
        for _ in range(3):
            subset = hvd.add_process_set(hvd.ProcessSet(reversed(ranks)), name="evaluation")
            assert (subset.name, subset.ranks, subset.size()) == ("evaluation", ranks, 2)
            assert subset.rank() == ranks.index(here.rank) and subset.included()
            assert _sum(subset, here.rank) == ranks
            rows = [here.data("float32", (r + 1, 2), r) for r in ranks]
            got = hvd.allgather(rows[subset.rank()], process_set=subset)
            here.close(got, np.concatenate(rows), exact=True)
            got = hvd.broadcast(np.full(3, here.rank), root_rank=ranks[0], process_set=subset)
            assert (got == ranks[0]).all()
            got = hvd.alltoall(np.full(2, here.rank), process_set=subset)
            assert got.tolist() == ranks
            got = hvd.reducescatter(np.ones((2, 2)), op=SUM, process_set=subset)
            assert got.tolist() == [[2, 2]]
            hvd.barrier(process_set=subset)
            assert hvd.remove_process_set(subset) is True
            assert subset.process_set_id is None and subset.name is None
            assert hvd.remove_process_set(subset) is False
    assert hvd.allreduce(1, op=SUM) == here.size


@check()
def named_sets_may_have_the_same_ranks(here: Here) -> None:
    sets = [hvd.add_process_set(here.ranks, name=name) for name in ("a", "b", "ü/ [0]")]
    sets.append(hvd.add_process_set([here.rank], name="alone"))
    assert len({s.process_set_id for s in sets}) == len(sets)
    handles = [hvd.allreduce_async(np.ones(5), op=SUM, name="x", process_set=s) for s in sets]
    for handle, s in reversed(list(zip(handles, sets, strict=True))):
        assert (hvd.synchronize(handle) == s.size()).all()
    for s in sets:
        hvd.remove_process_set(s)


@check(min_ranks=2)
def a_name_serves_sets_of_disjoint_ranks(here: Here) -> None:
    row = [r for r in here.ranks if r % 2 == here.rank % 2]
    subset = hvd.add_process_set(row, name="row")
    assert _sum(subset, here.rank) == row
    hvd.remove_process_set(subset)


@check(min_ranks=2)
def sets_of_all_ranks_are_numbered_alike_beside_named_ones(here: Here) -> None:
    named = hvd.add_process_set([0], name="first") if here.rank == 0 else None
    plain = hvd.add_process_set([0])
    assert hvd.allgather_object(plain.process_set_id) == [plain.process_set_id] * here.size
    if named is not None:
        assert named.process_set_id != plain.process_set_id
        hvd.remove_process_set(named)
    hvd.remove_process_set(plain)


@check()
def what_makes_no_sense_is_refused_on_the_rank_that_asks(here: Here) -> None:
    for name in ("", 3):
        with raises(ValueError, "the name of a process set"):
            hvd.add_process_set([here.rank], name=name)
    with raises(ValueError, "do not exist"):
        hvd.add_process_set([here.size], name="a")
    with raises(ValueError, "at least one"):
        hvd.add_process_set([], name="a")
    if here.size > 1:
        with raises(ValueError, f"rank {here.rank} is not among the ranks", "only its members"):
            hvd.add_process_set([(here.rank + 1) % here.size], name="a")
    mine = hvd.add_process_set([here.rank], name="mine")
    with raises(ValueError, "registered already"):
        hvd.add_process_set(mine, name="other")
    with raises(ValueError, "'mine' of the ranks", "exists already"):
        hvd.add_process_set([here.rank], name="mine")
    hvd.remove_process_set(mine)
    hvd.add_process_set(mine, name="mine")
    hvd.remove_process_set(mine)
    assert hvd.allreduce(1, op=SUM) == here.size


@check(min_ranks=3)
def members_that_disagree_about_the_ranks_are_told(here: Here) -> None:
    odd = here.rank == 1
    with raises(
        hvd.MismatchError,
        "'eval': ",
        "rank 1 named the ranks [0, 1]",
        f"named the ranks {list(here.ranks)}",
        "All members must name the same ranks",
    ):
        hvd.add_process_set([0, 1] if odd else here.ranks, name="eval")
    hvd.barrier()
    subset = hvd.add_process_set(here.ranks, name="eval")
    assert _sum(subset, here.rank) == list(here.ranks)
    hvd.remove_process_set(subset)


@check(min_ranks=2)
def threads_may_add_sets_in_crossing_order(here: Here) -> None:
    """Each thread waits for its own set, whatever the other one waits for."""
    failed = []

    def work(name: str) -> None:
        try:
            subset = hvd.add_process_set(here.ranks, name=name)
            assert _sum(subset, here.rank) == list(here.ranks)
            hvd.remove_process_set(subset)
        except BaseException as error:
            failed.append(error)
            raise

    names = ["a", "b", "c"]
    names = names[here.rank % 3 :] + names[: here.rank % 3]
    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
