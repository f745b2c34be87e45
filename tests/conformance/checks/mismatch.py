"""Ranks that disagree: the same MismatchError on every one of them, and the engine goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checks import check
from checks.api import api, hvd
from checks.here import SUM, Here, raises


def _disagree(here: Here, call: Callable[[bool], Any], *words: str) -> None:
    """Each rank in turn is the odd one: `call(odd)`."""
    for again in range(2):
        for odd in here.ranks:
            with raises(hvd.MismatchError, *words, f"rank {odd} ") as caught:
                call(here.rank == odd)
            error = caught[0]
            assert isinstance(error, hvd.HorovodInternalError) and not error.retryable
            here.same_on_all_ranks(f"{error}")
            assert (hvd.allreduce(api.ones(3), op=SUM, name=f"after.{again}") == here.size).all()


# With two ranks the odd one and the other are equally odd; the words still name both.
_CASES: dict[str, tuple[Callable[[bool], Any], tuple[str, ...]]] = {
    "shape": (
        lambda odd: hvd.allreduce(api.ones((2, 3 + odd)), name="m.shape"),
        ("m.shape", "[2, 3]", "[2, 4]", "same shape"),
    ),
    "number of dimensions": (
        lambda odd: hvd.allreduce(api.ones((4, 1) if odd else (4,)), name="m.ndim"),
        ("m.ndim", "[4]", "[4, 1]"),
    ),
    "size zero": (
        lambda odd: hvd.allreduce(api.ones(0 if odd else 5), name="m.zero"),
        ("m.zero", "[0]", "[5]"),
    ),
    "dtype": (
        lambda odd: hvd.allreduce(api.ones(3, "float64" if odd else "float32"), name="m.dtype"),
        ("m.dtype", "float32", "float64", "cast"),
    ),
    "dtype of the same size": (
        lambda odd: hvd.allreduce(api.ones(3, "int32" if odd else "float32"), name="m.dtype4"),
        ("m.dtype4", "float32", "int32"),
    ),
    "op": (
        lambda odd: hvd.allreduce(api.ones(3), op=hvd.Max if odd else hvd.Sum, name="m.op"),
        ("m.op", "Max", "Sum"),
    ),
    "average against sum": (
        lambda odd: hvd.allreduce(
            api.ones(3), op=hvd.Average if odd else hvd.Sum, name="m.average"
        ),
        ("m.average", "Average", "Sum"),
    ),
    "prescale": (
        lambda odd: hvd.allreduce(api.ones(3), prescale_factor=2.0 if odd else 0.5, name="m.pre"),
        ("m.pre", "prescale_factor 2", "prescale_factor 0.5"),
    ),
    "postscale": (
        lambda odd: hvd.allreduce(api.ones(3), postscale_factor=0.1 if odd else 1.0, name="m.post"),
        ("m.post", "postscale_factor 0.1", "postscale_factor 1"),
    ),
    "in place or not is no matter, the shape is": (
        lambda odd: (hvd.allreduce_ if odd else hvd.allreduce)(
            api.ones(4 if odd else 5), name="m.place"
        ),
        ("m.place", "[4]", "[5]"),
    ),
    "root": (
        lambda odd: hvd.broadcast(api.ones(3), int(odd), name="m.root"),
        ("m.root", "root 0", "root 1"),
    ),
    "root of reduce": (
        lambda odd: hvd.reduce(api.ones(3), int(odd), name="m.rroot"),
        ("m.rroot", "root 0", "root 1"),
    ),
    "broadcast shape": (
        lambda odd: hvd.broadcast(api.ones(3 + odd), 0, name="m.bshape"),
        ("m.bshape", "[3]", "[4]"),
    ),
    "broadcast dtype": (
        lambda odd: hvd.broadcast(api.ones(3, "int8" if odd else "uint8"), 0, name="m.bdtype"),
        ("m.bdtype", "int8", "uint8"),
    ),
    "allgather trailing dimensions": (
        lambda odd: hvd.allgather(api.ones((2, 3 + odd)), name="m.gather"),
        ("m.gather", "[2, 3]", "[2, 4]", "but the first"),
    ),
    "allgather dtype": (
        lambda odd: hvd.allgather(api.ones(2, "int64" if odd else "int32"), name="m.gdtype"),
        ("m.gdtype", "int64", "int32"),
    ),
    "alltoall trailing dimensions": (
        lambda odd: hvd.alltoall(api.ones((hvd.size(), 3 + odd)), name="m.alltoall"),
        ("m.alltoall", "but the first"),
    ),
    "reducescatter shape": (
        lambda odd: hvd.reducescatter(api.ones((4 + odd, 2)), name="m.scatter"),
        ("m.scatter", "[4, 2]", "[5, 2]"),
    ),
    "reducescatter op": (
        lambda odd: hvd.reducescatter(
            api.ones(4), op=hvd.Sum if odd else hvd.Average, name="m.sop"
        ),
        ("m.sop", "Sum", "Average"),
    ),
}


@check(min_ranks=2, case=list(_CASES), tags=["engine"])
def everybody_reads_the_same_words(here: Here, case: str) -> None:
    call, words = _CASES[case]
    _disagree(here, call, *words)


@check(min_ranks=2, tags=["engine"])
def a_name_that_was_agreed_before_may_be_disagreed_about_later(here: Here) -> None:
    for step in range(8):
        good = hvd.allreduce(api.ones(6, "float32"), op=SUM, name="cached")
        assert (good == here.size).all()
        odd = step % here.size
        with raises(hvd.MismatchError, "cached", "[6]", "[7]", f"rank {odd} "):
            hvd.allreduce(api.ones(7 if here.rank == odd else 6, "float32"), op=SUM, name="cached")


@check(min_ranks=2, tags=["engine"])
def all_may_change_their_minds_together(here: Here) -> None:
    for step in range(6):
        got = hvd.allreduce(api.ones(5 + step % 2), op=SUM, name="together")
        assert got.tolist() == [here.size] * (5 + step % 2)


@check(min_ranks=3)
def everybody_is_quoted_correctly(here: Here) -> None:
    shapes = [(2, 3), (5, 3), (7, 4), (1, 3)]
    with raises(hvd.MismatchError) as caught:
        hvd.allgather(api.ones(shapes[here.rank]), name="quoted")
    text = str(caught[0])
    for rank in here.ranks:
        assert f"rank {rank} sent shape {list(shapes[rank])}" in text, text
    with raises(hvd.MismatchError) as caught:
        hvd.allreduce(api.ones(4 if here.rank == 1 else 3), name="quoted")
    others = "ranks 0 and 2" if here.size == 3 else "ranks 0, 2 and 3"
    assert f"{others} sent shape [3], rank 1 sent shape [4]" in str(caught[0]), caught[0]


@check(min_ranks=2)
def operations_under_way_are_not_disturbed(here: Here) -> None:
    before = [hvd.allreduce_async(api.full(30_000, i), op=SUM, name=f"calm.{i}") for i in range(5)]
    wrong = hvd.allreduce_async(api.ones(3 + here.rank), op=SUM, name="storm")
    after = [
        hvd.allreduce_async(api.full(30_000, i), op=SUM, name=f"calm.{i + 5}") for i in range(5)
    ]
    with raises(hvd.MismatchError, "storm"):
        hvd.synchronize(wrong)
    assert hvd.synchronize(wrong) is None, "the failed handle is gone"
    for handles in (before, after):
        for i, handle in enumerate(handles):
            assert (hvd.synchronize(handle) == i * here.size).all()


@check(min_ranks=2)
def a_failed_in_place_operation_leaves_the_tensor_alone(here: Here) -> None:
    place = api.full((3 + here.rank, 2), here.rank)
    with raises(hvd.MismatchError):
        hvd.allreduce_(place, op=SUM, name="untouched")
    assert (place == here.rank).all()
    view = api.full((4 + here.rank, 4), 0)[:, ::2]
    with raises(hvd.MismatchError):
        hvd.allreduce_(view, op=SUM, name="untouched")
    assert (view == 0).all()
