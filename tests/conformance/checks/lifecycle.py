"""shutdown, and init again: last, because it ends what the others stand on."""

from __future__ import annotations

import numpy as np
from machine import within

import hvdlite as hvd
from checks import check
from checks.here import SUM, Here, raises


@check(seconds=40)
def after_shutdown_everything_says_not_initialised_and_init_starts_anew(here: Here) -> None:
    for round_number in range(3):
        subset = hvd.add_process_set([0]) if here.size > 1 else None
        place = np.ones(4)
        left = hvd.allreduce_async_(place, op=SUM, name="left over")
        hvd.shutdown()
        assert not hvd.is_initialized()
        hvd.shutdown()
        for ask in (
            hvd.rank,
            hvd.size,
            hvd.local_rank,
            hvd.local_size,
            hvd.cross_rank,
            hvd.cross_size,
        ):
            with raises(hvd.NotInitializedError, "hvd.init()"):
                ask()
        with raises(ValueError):
            hvd.is_homogeneous()
        for call in (
            hvd.allreduce,
            hvd.allgather,
            hvd.allreduce_async,
            hvd.allreduce_,
            hvd.reducescatter,
        ):
            with raises(hvd.NotInitializedError, "hvd.init()"):
                call(np.ones(2))
        for ask in (hvd.barrier, hvd.join, lambda: hvd.broadcast(np.ones(1), 0)):
            with raises(hvd.NotInitializedError, "hvd.init()"):
                ask()
        with raises(hvd.NotInitializedError):
            hvd.add_process_set([0])
        # Handles from before mean nothing; what all ranks had asked for has happened.
        assert hvd.synchronize(left) is None and (place == here.size).all()
        hvd.init()
        assert (hvd.rank(), hvd.size()) == (here.rank, here.size)
        assert (hvd.allreduce(np.ones(3), op=SUM, name=f"again.{round_number}") == here.size).all()
        assert hvd.allreduce(1, op=SUM) == here.size
        if subset is not None:
            again = hvd.add_process_set([0])
            assert again.process_set_id == 1, "sets end with the job they belong to"
            hvd.remove_process_set(again)


@check(seconds=30)
def a_named_set_ends_with_its_job(here: Here) -> None:
    subset = hvd.add_process_set([here.rank], name="again")
    hvd.barrier()
    hvd.shutdown()
    assert subset.process_set_id is None and subset.name is None
    hvd.init()
    again = hvd.add_process_set([here.rank], name="again")
    assert hvd.allreduce(1, op=SUM, process_set=again) == 1
    hvd.remove_process_set(again)


@check(min_ranks=2, seconds=30)
def what_is_outstanding_when_others_leave_ends_with_an_error(here: Here) -> None:
    import time

    if here.rank == 0:
        handle = hvd.allreduce_async(np.ones(3), name="alone")
        start = time.monotonic()
        with raises(hvd.ShutDownError, "shut down"):
            hvd.synchronize(handle)
        assert time.monotonic() - start < within(8)
        with raises(hvd.HorovodInternalError):
            hvd.allreduce(np.ones(3))
    hvd.shutdown()
    hvd.init()
    assert hvd.allreduce(1, op=SUM) == here.size
