"""broadcast from every root."""

from __future__ import annotations

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import DTYPES, SHAPES, Here, dtype_of, raises


@check(dtype=DTYPES)
def everybody_gets_the_roots_tensor(here: Here, dtype: str) -> None:
    for root in here.ranks:
        for shape in SHAPES:
            all_of_them = here.everyones(dtype, shape, root)
            mine = all_of_them[here.rank]
            before = mine.tobytes()
            got = hvd.broadcast(mine, root)
            here.close(got, all_of_them[root], f"{shape} from {root}", exact=True)
            assert mine.tobytes() == before, "the input was written to"
            assert got is not mine
            handle = hvd.broadcast_async(mine, root_rank=root, name=f"{here.check}.{root}.{shape}")
            here.close(hvd.synchronize(handle), all_of_them[root], exact=True)
            place = mine.copy()
            assert hvd.broadcast_(place, root) is place
            here.close(place, all_of_them[root], "in place", exact=True)
            place = mine.copy()
            assert hvd.synchronize(hvd.broadcast_async_(place, root)) is place
            here.close(place, all_of_them[root], "async in place", exact=True)


@check(dtype=("uint8", "float32"), seconds=30)
def tensors_that_cross_chunks(here: Here, dtype: str) -> None:
    for root in {0, here.size - 1}:
        for count in (262144 // 4 + 1, (3 << 20) // dtype_of(dtype).itemsize + 7):
            all_of_them = here.everyones(dtype, (count,), root)
            here.close(hvd.broadcast(all_of_them[here.rank], root), all_of_them[root], exact=True)
            place = all_of_them[here.rank].copy()
            hvd.broadcast_(place, root)
            here.close(place, all_of_them[root], exact=True)


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
