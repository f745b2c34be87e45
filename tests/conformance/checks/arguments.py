"""What is wrong by itself is an error at the call, on this rank alone, and leaves nothing
behind."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from checks import check, needs
from checks.api import api, hvd
from checks.here import OPS, SUM, Here, raises
from hvdlite.exceptions import HorovodInternalError


def still_works(here: Here) -> None:
    assert float(hvd.allreduce(api.ones(()), op=SUM)) == here.size


@check()
def what_is_no_tensor_is_a_type_error(here: Here) -> None:
    needs(api.handles, "tensors of one type alone")
    calls = (
        hvd.allreduce,
        hvd.allreduce_,
        hvd.allreduce_async,
        hvd.allreduce_async_,
        hvd.allgather,
        hvd.alltoall,
    )
    for wrong in api.no_tensors:
        for call in (*calls, hvd.reducescatter, lambda x: hvd.broadcast(x, 0)):
            with raises(TypeError, api.tensor_word):
                call(wrong)
    still_works(here)


@check()
def a_group_is_a_list_of_tensors(here: Here) -> None:
    needs(api.handles, "groups that are lists")
    groups = (
        hvd.grouped_allreduce,
        hvd.grouped_allreduce_async_,
        hvd.grouped_allgather,
        hvd.grouped_reducescatter,
    )
    for group in groups:
        for wrong in (
            api.ones(3),
            3,
            "abc",
            None,
            {1: api.ones(2)},
            (api.ones(1) for _ in range(2)),
        ):
            with raises(TypeError, "list"):
                group(wrong)
        with raises(TypeError):
            group([api.ones(2), None])
    assert hvd.grouped_allreduce((api.ones(1), api.ones(2)), op=SUM)[1].tolist() == [here.size] * 2


@check()
def a_dtype_that_cannot_be_reduced_is_refused(here: Here) -> None:
    kind, word = api.dtype_error
    calls = [hvd.allreduce, hvd.allgather, *([hvd.allreduce_async] if api.handles else [])]
    for wrong in api.wrong_dtypes():
        for call in calls:
            with raises(kind, word):
                call(wrong)
    still_works(here)


# By what is wrong: the word of the error, and a call for a tensor of three elements.
_REFUSED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a root that does not exist": ("root_rank 99", lambda x: hvd.broadcast(x, 99)),
    "a root below zero": ("-1", lambda x: hvd.broadcast(x, -1)),
    "a root that reduce does not find": ("root_rank 99", lambda x: hvd.reduce(x, 99)),
    "rows of what has no dimensions": ("dimensions", lambda x: hvd.allgather(x[0])),
    "parts of what has no dimensions": ("dimensions", lambda x: hvd.alltoall(x[0])),
    "shares of what has no dimensions": ("dimensions", lambda x: hvd.reducescatter(x[0])),
    "a factor for bool": ("bool", lambda x: hvd.allreduce(x > 0, prescale_factor=2.0)),
}


@check(what=tuple(_REFUSED), tags=["essential"], seconds=30)
def what_makes_no_sense_is_a_value_error(here: Here, what: str) -> None:
    word, call = _REFUSED[what]
    for mode in api.modes:
        with raises((ValueError, api.invalid(mode)), word):
            api.run(mode, call, api.ones(3))
    still_works(here)


@check()
def operations_without_meaning_are_refused_at_the_call(here: Here) -> None:
    x = api.ones(here.size)
    for op in (6, 17, -1):
        for call in (hvd.allreduce, hvd.reducescatter):
            with raises((ValueError, TypeError, HorovodInternalError)):
                call(x, op=op)
    for call in (hvd.reducescatter, lambda x, op: hvd.reduce(x, 0, op=op)):
        with raises((ValueError, NotImplementedError, HorovodInternalError), "reduce"):
            call(x, op=hvd.Adasum)
    for label in OPS.keys() - set(api.scatters):
        with raises(HorovodInternalError, "reducescatter", "Average"):
            hvd.reducescatter(x, op=OPS[label])
    with raises(ValueError, "floating"):
        hvd.allreduce(api.ones(2, "int32"), op=hvd.Adasum)
    still_works(here)


@check()
def a_process_set_is_one_that_is_registered(here: Here) -> None:
    for wrong in (0, [0], "all", None):
        with raises(TypeError, "ProcessSet"):
            hvd.allreduce(api.ones(2), process_set=wrong)
        with raises(TypeError, "ProcessSet"):
            hvd.grouped_allreduce([api.ones(2)], process_set=wrong)
    with raises(ValueError, "not registered"):
        hvd.allreduce(api.ones(2), process_set=hvd.ProcessSet([0]))
    still_works(here)


@check(min_ranks=2)
def those_outside_a_process_set_are_refused_at_the_call(here: Here) -> None:
    subset = hvd.add_process_set([0])
    if here.rank == 0:
        assert float(hvd.allreduce(api.ones(()), op=SUM, process_set=subset)) == 1
        for root in (1, here.size):
            with raises(ValueError, f"{root}"):
                hvd.broadcast(api.ones(2), root, process_set=subset)
    else:
        calls: list[Callable[..., Any]] = [
            hvd.allreduce,
            hvd.allgather,
            hvd.alltoall,
            hvd.reducescatter,
        ]
        calls += [
            lambda x, **how: hvd.broadcast(x, 0, **how),
            lambda x, **how: hvd.grouped_allreduce([x], **how),
        ]
        if api.handles:
            calls += [hvd.allreduce_async, lambda x, **how: hvd.broadcast_(x, 0, **how)]
            calls.append(lambda x, **how: hvd.barrier(**how))
        for call in calls:
            with raises(ValueError, f"rank {here.rank}", "not a member"):
                call(api.ones(2), process_set=subset)
    hvd.remove_process_set(subset)


@check()
def wrong_splits_are_refused_at_the_call(here: Here) -> None:
    n, rows = here.size, api.ones((2 * here.size, 2))
    wrong = [
        [1] * (n + 1),
        [],
        [-1] + [1] * (n - 1),
        [2 * n] * n + [0],
        [3 * n] + [0] * (n - 1),
        [3] * n,
    ]
    for splits in (*wrong, *api.wrong_splits(n)):
        with raises(ValueError, "splits"):
            hvd.alltoall(rows, splits)
    for call in (hvd.alltoall,) if n > 1 else ():
        with raises(ValueError, "divisible"):
            call(api.ones(n + 1))
    assert tuple(hvd.alltoall(rows).shape) == (2 * n, 2)


@check()
def scale_factors_are_numbers(here: Here) -> None:
    for factor, name in itertools.product(
        ("2", None, [1.0]), ("prescale_factor", "postscale_factor")
    ):
        with raises(TypeError):
            hvd.allreduce(api.ones(2), **{name: factor})
    for factor, name in ((2, "prescale_factor"), (np.float32(2), "postscale_factor")):
        assert float(hvd.allreduce(api.ones(()), op=SUM, **{name: factor})) == 2 * here.size


@check()
def average_was_an_argument_of_its_own(here: Here) -> None:
    needs(
        "average" in inspect.signature(hvd.allreduce).parameters,
        "Horovod's older argument average=",
    )
    calls = [hvd.allreduce, *([hvd.allreduce_] if api.handles else [])]
    for call in calls:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert float(call(api.ones(()), average=False)) == here.size
            assert float(call(api.ones(()), True)) == 1
        assert [w.category for w in said] == [DeprecationWarning] * 2
    with raises(ValueError, "op= and average="):
        hvd.allreduce(api.ones(1), average=True, op=SUM)


@check()
def a_name_may_come_by_its_position(here: Here) -> None:
    needs(api.handles, "Horovod's order of arguments")
    x = api.ones(here.size)
    handles = [
        hvd.broadcast_async(x, 0, "named"),
        hvd.allgather_async(x, "named"),
        hvd.reducescatter_async(x, "named"),
    ]
    handles += [
        hvd.alltoall_async(x, [1] * here.size, "named"),
        hvd.grouped_reducescatter_async([x], "group"),
    ]
    for handle in handles:
        hvd.synchronize(handle)
    assert float(hvd.allreduce_(api.ones(()), None, "named", SUM)) == here.size
