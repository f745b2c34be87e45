"""What is wrong by itself is an error at the call, on this rank alone, and leaves nothing behind."""

from __future__ import annotations

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import SUM, Here, raises


@check()
def what_is_no_tensor_is_a_type_error(here: Here) -> None:
    for wrong in (None, "text", object(), {1: 2}, b"bytes"):
        for call in (hvd.allreduce, hvd.allreduce_async, hvd.allgather, hvd.reducescatter, hvd.alltoall):
            with raises(TypeError):
                call(wrong)
        with raises(TypeError):
            hvd.broadcast(wrong, 0)
        for call in (hvd.allreduce_, hvd.allreduce_async_):
            with raises(TypeError):
                call(wrong)
    assert hvd.allreduce(1, op=SUM) == here.size


@check()
def dtypes_that_cannot_be_reduced_are_a_type_error_that_lists_those_that_can(here: Here) -> None:
    wrong = [
        np.ones(2, np.complex64),
        np.array(["text"]),
        np.array([object()]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.ones(2, ">f4"),
        np.zeros(2, [("a", np.int32)]),
        np.zeros(2, "V2"),
    ]
    if np.dtype(np.longdouble).itemsize > 8:
        wrong.append(np.ones(2, np.longdouble))
    for tensor in wrong:
        for call in (hvd.allreduce, hvd.allgather, hvd.allreduce_async):
            with raises(TypeError, "float32"):
                call(tensor)
    assert hvd.allreduce(1, op=SUM) == here.size


@check()
def an_in_place_operation_needs_a_tensor_to_write_into(here: Here) -> None:
    for wrong in (3.0, [1.0, 2.0], np.float32(1)):
        with raises((TypeError, ValueError)):
            hvd.allreduce_(wrong, op=SUM)
        with raises((TypeError, ValueError)):
            hvd.broadcast_(wrong, 0)
    assert hvd.allreduce(1, op=SUM) == here.size


@check()
def an_unknown_op_is_a_value_error(here: Here) -> None:
    for op in (6, -1, "Sum", 1.0):
        with raises((ValueError, TypeError)):
            hvd.allreduce(np.ones(2), op=op)
        with raises((ValueError, TypeError)):
            hvd.grouped_allreduce([np.ones(2)], op=op)
        with raises((ValueError, TypeError)):
            hvd.reducescatter(np.ones(here.size), op=op)
    assert (hvd.allreduce(np.ones(2), op=np.int64(hvd.Sum)) == here.size).all()


@check()
def scale_factors_are_numbers(here: Here) -> None:
    for factor in ("2", None, [1.0]):
        with raises(TypeError):
            hvd.allreduce(np.ones(2), prescale_factor=factor)
        with raises(TypeError):
            hvd.allreduce(np.ones(2), postscale_factor=factor)
    assert (hvd.allreduce(np.ones(2), op=SUM, prescale_factor=2) == 2 * here.size).all()
    assert (hvd.allreduce(np.ones(2), op=SUM, postscale_factor=np.float32(2)) == 2 * here.size).all()


@check()
def bool_is_not_scaled_and_adasum_is_for_floats(here: Here) -> None:
    with raises(ValueError, "bool"):
        hvd.allreduce(np.ones(2, bool), op=SUM, prescale_factor=2.0)
    with raises(ValueError, "floating"):
        hvd.allreduce(np.ones(2, np.int32), op=hvd.Adasum)
    assert hvd.allreduce(np.ones(2, bool)).all()


@check()
def a_process_set_is_a_process_set(here: Here) -> None:
    for wrong in (0, [0], "all", None):
        with raises(TypeError, "process_set"):
            hvd.allreduce(np.ones(2), process_set=wrong)
        with raises(TypeError, "process_set"):
            hvd.barrier(process_set=wrong)
        with raises(TypeError, "process_set"):
            hvd.grouped_allreduce([np.ones(2)], process_set=wrong)
    with raises(ValueError, "not registered"):
        hvd.allreduce(np.ones(2), process_set=hvd.ProcessSet([0]))


@check()
def positional_arguments_come_in_horovods_order(here: Here) -> None:
    t = np.ones(3, np.float32)
    assert (hvd.allreduce(t, None, "positional", hvd.Sum) == here.size).all()
    hvd.allreduce_(t, None, "positional", hvd.Sum)
    assert (t == here.size).all()
    assert (hvd.allreduce(t, None, "positional", hvd.Sum, 2.0, 0.5, hvd.global_process_set) == here.size**2).all()
    assert (hvd.broadcast(t, 0, "positional") == t).all()
    assert hvd.allgather(t, "positional").shape == (3 * here.size,)
    out, received = hvd.alltoall(np.ones(here.size), [1] * here.size, "positional")
    assert out.sum() == here.size and received.tolist() == [1] * here.size
    assert hvd.reducescatter(np.ones(here.size), "positional", hvd.Sum).tolist() == [here.size]
    assert len(hvd.grouped_allreduce([t, t], None, "positional", hvd.Sum)) == 2
    assert (hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product) == (0, 1, 2, 3, 4, 5)
