"""barrier."""

from __future__ import annotations

import time
from collections.abc import Callable

import hvdlite as hvd
from checks import check
from checks.here import Here


@check(tags=["engine"])
def nobody_leaves_before_the_last_has_come(here: Here) -> None:
    waits_for_the_last(here, hvd.barrier)


def waits_for_the_last(here: Here, barrier: Callable[[], None]) -> None:
    """Of any framework."""
    # All ranks run on one machine, so its monotonic clock is everybody's.
    for late in here.ranks:
        if here.rank == late:
            time.sleep(0.05)  # span: it comes last
        came = time.monotonic()
        barrier()
        left = time.monotonic()
        times = hvd.allgather_object((came, left))
        assert min(t[1] for t in times) >= max(t[0] for t in times)


@check(tags=["engine"])
def a_thousand_in_a_row(here: Here) -> None:
    for _ in range(1000 if here.size <= 2 else 300):
        hvd.barrier()
