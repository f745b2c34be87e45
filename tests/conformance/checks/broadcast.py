"""broadcast from every root."""

from __future__ import annotations

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import Here, raises


@check()
def a_view_is_filled_in_place(here: Here) -> None:
    root = here.size - 1
    whole = here.everyones("float32", (8, 9))
    base = whole[here.rank].copy()
    view = base[::2, 1::3]
    assert hvd.broadcast_(view, root) is view
    here.close(np.array(base[::2, 1::3]), np.array(whole[root][::2, 1::3]), exact=True)
    assert base[1].tobytes() == whole[here.rank][1].tobytes()


@check()
def a_read_only_tensor_is_no_place_for_a_result(here: Here) -> None:
    locked = np.full(3, here.rank)
    locked.flags.writeable = False
    for call in (hvd.broadcast_, hvd.broadcast_async_):
        with raises(ValueError, "read-only"):
            call(locked, 0)
    assert (hvd.broadcast(locked, 0) == 0).all()


@check()
def a_root_that_does_not_exist_is_refused_at_the_call(here: Here) -> None:
    for root in (-1, here.size, 10**12):
        with raises(ValueError, str(root)):
            hvd.broadcast(np.ones(2), root)
        with raises(ValueError, str(root)):
            hvd.broadcast_async_(np.ones(2), root)
    for root in ("0", 1.5, None):
        with raises(TypeError):
            hvd.broadcast(np.ones(2), root)
    assert hvd.broadcast(np.ones(2), np.int64(0)).sum() == 2


@check(min_ranks=2, tags=["engine"])
def broadcasts_from_several_roots_at_once(here: Here) -> None:
    handles = [
        hvd.broadcast_async(np.full(10 + root, here.rank, np.int32), root, name=f"from.{root}.{again}")
        for again in range(5)
        for root in here.ranks
    ]
    for number, handle in enumerate(handles):
        assert (hvd.synchronize(handle) == number % here.size).all()
