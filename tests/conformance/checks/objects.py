"""Python objects."""

from __future__ import annotations

import inspect
import os

import numpy as np

from checks import check, needs
from checks.api import api, hvd
from checks.here import Here, raises


@check()
def every_root_can_send_any_object(here: Here) -> None:
    factor = 3
    for root in here.ranks:
        for obj in (
            None,
            42,
            "text",
            {"a": [1, 2.5, None]},
            api.full(10, 7),
            b"",
            lambda x: x * factor,
            [0] * 10_000,
        ):
            mine = obj if here.rank == root else "ignored"
            got = hvd.broadcast_object(mine, root_rank=root)
            if here.rank == root:
                assert got is mine
            elif callable(obj):
                assert got(5) == 15
            elif hasattr(obj, "shape"):
                assert (api.array(got) == 7).all()
            else:
                assert got == obj
    assert hvd.broadcast_object("named" if here.rank == 0 else None, 0, name="object") == "named"


@check()
def everybodys_objects_come_in_the_order_of_ranks(here: Here) -> None:
    for name in (None, "gathered", "gathered"):
        got = hvd.allgather_object(
            {"rank": here.rank, "payload": "x" * (1000 * here.rank)}, name=name
        )
        assert [o["rank"] for o in got] == list(here.ranks)
        assert [len(o["payload"]) for o in got] == [1000 * r for r in here.ranks]
    assert hvd.allgather_object(None) == [None] * here.size


@check(min_ranks=3)
def objects_within_a_process_set(here: Here) -> None:
    ranks = [0, here.size - 1]
    subset = hvd.add_process_set(ranks)
    if subset.included():
        if "process_set" in inspect.signature(hvd.allgather_object).parameters:  # not torch's
            assert hvd.allgather_object(here.rank, process_set=subset) == ranks
        assert hvd.broadcast_object(here.rank, here.size - 1, process_set=subset) == here.size - 1
    hvd.remove_process_set(subset)


@check()
def what_cannot_be_pickled_fails_before_anything_is_sent(here: Here) -> None:
    class Refuses:
        def __reduce__(self) -> str:
            raise RuntimeError("not me")

    if here.size == 1 or here.rank == 0:
        with raises(RuntimeError, "not me"):
            hvd.allgather_object(Refuses())
        with raises(RuntimeError, "not me"):
            hvd.broadcast_object(Refuses(), root_rank=here.rank)
    assert hvd.allgather_object(here.rank) == list(here.ranks)


@check(min_ranks=2, seconds=110)
def an_object_of_more_than_two_gibibytes(here: Here) -> None:
    needs(
        os.environ.get("LARGE_OBJECTS") and here.size == 2,
        "two ranks, half a minute, 5 GiB each, and LARGE_OBJECTS=1",
    )
    import psutil

    free = hvd.allgather_object(psutil.virtual_memory().available)
    needs(min(free) >= 16 << 30, f"16 GiB of free memory, {min(free) >> 30} are there")
    count = (2 << 30) + 12_345
    obj = {"big": np.full(count, 7, np.uint8), "end": "here"} if here.rank == 0 else None
    got = hvd.broadcast_object(obj, root_rank=0)
    assert got["big"].nbytes == count and got["end"] == "here"
    assert got["big"][0] == 7 and got["big"][-1] == 7 and got["big"][1 << 31] == 7
