"""allreduce in all forms against numpy."""

from __future__ import annotations

import gc
import warnings

import numpy as np

import hvdlite as hvd
from checks import check, needs
from checks.here import (
    ADASUM,
    AVERAGE,
    FLOATS,
    INTEGERS,
    MAX,
    MIN,
    OPS,
    PRODUCT,
    SUM,
    Here,
    dtype_of,
    in_threads,
    raises,
    reference,
)


@check()
def adasum_of_equals_is_itself_and_of_orthogonals_the_sum(here: Here) -> None:
    same = here.data("float64", (50,), 0)
    np.testing.assert_allclose(hvd.allreduce(same, op=ADASUM), same, rtol=1e-12)
    mine = np.zeros(4 * here.size)
    mine[4 * here.rank : 4 * here.rank + 4] = here.rank + 1.0
    want = np.repeat(np.arange(1.0, here.size + 1), 4)
    np.testing.assert_allclose(hvd.allreduce(mine, op=ADASUM), want, rtol=1e-12)
    # Per tensor, also when they travel together.
    a, b = hvd.grouped_allreduce([same, mine], op=ADASUM)
    np.testing.assert_allclose(a, same, rtol=1e-12)
    np.testing.assert_allclose(b, want, rtol=1e-12)


@check(dtype=("float16", "bfloat16"))
def sixteen_bit_floats_are_rounded_once(here: Here, dtype: str) -> None:
    kind = dtype_of(dtype)
    # 1 + ulp/2 + ulp/2 is 1 + ulp only if the intermediate sum is not rounded.
    eps = 2.0**-10 if dtype == "float16" else 2.0**-7
    inputs = [np.full(1000, 1.0 if r == 0 else eps / 2, kind) for r in here.ranks]
    got = hvd.allreduce(inputs[here.rank], op=SUM)
    exact = np.float32(1.0) + np.float32(eps / 2) * np.float32(here.size - 1)
    assert got.tobytes() == np.full(1000, exact, np.float32).astype(kind).tobytes()
    here.close(got, reference(inputs, SUM))


@check(min_ranks=3)
def sums_are_formed_in_the_order_of_ranks(here: Here) -> None:
    needs(here.in_rank_order, "sums in the order of ranks")
    # 1e8 + 1 - 1e8 is 0 in float32, 1e8 - 1e8 + 1 is 1.
    terms = [1e8, 1.0, -1e8, 0.0]
    for count in (5, 100_000):
        got = hvd.allreduce(np.full(count, terms[here.rank], np.float32), op=SUM)
        want = np.float32(0)
        for term in terms[: here.size]:
            want = np.float32(want + np.float32(term))
        assert (got == want).all(), (got, want)


@check()
def integers_wrap_around(here: Here) -> None:
    for dtype in INTEGERS:
        top = np.iinfo(dtype).max
        inputs = [np.array([top, top - r, 3], dtype) for r in here.ranks]
        for op in (SUM, PRODUCT):
            here.close(
                hvd.allreduce(inputs[here.rank], op=op), reference(inputs, op), f"{dtype} {op}"
            )


@check(dtype=FLOATS)
def nan_and_infinity_behave_as_in_numpy(here: Here, dtype: str) -> None:
    kind = dtype_of(dtype)
    base = np.array([1, np.inf, -np.inf, np.nan, -0.0, 0.0], np.float32)
    inputs = [np.roll(base, r).astype(kind) for r in here.ranks]
    for label, op in OPS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = reference(inputs, op).astype(np.float64)
        got = hvd.allreduce(inputs[here.rank], op=op).astype(np.float64)
        np.testing.assert_array_equal(got, want, err_msg=label)


@check()
def average_is_the_default_and_divides_once(here: Here) -> None:
    inputs = here.everyones("float32", (1000,))
    here.close(hvd.allreduce(inputs[here.rank]), reference(inputs, AVERAGE))
    ints = here.everyones("int32", (1000,))
    here.close(hvd.allreduce(ints[here.rank]), reference(ints, AVERAGE), exact=True)


@check()
def input_that_is_not_contiguous_is_copied(here: Here) -> None:
    whole = here.everyones("float32", (12, 10, 4))
    views = [
        lambda t: t[::2],
        lambda t: t.T,
        lambda t: t[:, ::-1],
        lambda t: np.asfortranarray(t),
        lambda t: np.broadcast_to(t[0, 0], (3, 4)),
        lambda t: t[:0:3, 1:],
        lambda t: t[3, 4, 1:2],
    ]
    for number, view in enumerate(views):
        inputs = [view(t) for t in whole]
        here.close(
            hvd.allreduce(inputs[here.rank], op=SUM), reference(inputs, SUM), f"view {number}"
        )


@check()
def a_view_is_reduced_in_place(here: Here) -> None:
    whole = here.everyones("float32", (12, 10))
    base = whole[here.rank].copy()
    view = base[1::3, ::2]
    want = reference([w[1::3, ::2] for w in whole], SUM)
    assert hvd.allreduce_(view, op=SUM) is view
    here.close(view.copy(), want)
    rest = base.copy()
    rest[1::3, ::2] = whole[here.rank][1::3, ::2]
    assert rest.tobytes() == whole[here.rank].tobytes(), "what is not in the view has changed"
    column = np.array(whole[here.rank][:, 3:4])
    handle = hvd.allreduce_async_(column.T, op=MAX)
    hvd.synchronize(handle)
    here.close(column, reference([w[:, 3:4] for w in whole], MAX))
    transposed = whole[here.rank].T.copy().T
    hvd.grouped_allreduce_([transposed, column], op=MIN)
    here.close(np.ascontiguousarray(transposed), reference(whole, MIN))


@check(tags=["engine"])
def a_handle_in_place_stands_for_its_tensor_and_is_taken_once(here: Here) -> None:
    """The core has the tensor: such handles are numbers that no other one has."""
    tensors = [np.full(10 + i, here.rank, np.float32) for i in range(40)]
    handles = [hvd.allreduce_async_(t, op=SUM, name=f"place.{i}") for i, t in enumerate(tensors)]
    assert all(handle >= 1 << 40 for handle in handles)
    column = np.ones((4, 2), np.float32)[:, 0]
    assert hvd.synchronize(other := hvd.allreduce_async_(column, op=SUM)) is column
    assert other < 1 << 40, "a strided tensor travels as a copy"
    taken: list[int] = []

    def work(thread: int) -> None:
        for i, handle in enumerate(handles):
            if (result := hvd.synchronize(handle)) is not None:
                assert result is tensors[i] and (result == sum(here.ranks)).all()
                taken.append(i)

    in_threads(4, work)
    assert sorted(taken) == list(range(40))
    with raises(ValueError, str(handles[0])):
        hvd.poll(handles[0])
    handle = hvd.allreduce_async_(tensors[0], op=SUM, name="again")
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle) is tensors[0] and hvd.synchronize(handle) is None


@check()
def tensors_of_a_group_in_place_may_share_memory(here: Here) -> None:
    """Each is reduced once."""
    whole = np.arange(8.0) + here.rank
    want = np.arange(8.0) * here.size + sum(here.ranks)
    tensors = [whole[2:6], whole, whole[::2], np.ones(2), whole]
    hvd.grouped_allreduce_(tensors, op=SUM)
    here.close(whole, want)
    hvd.synchronize(hvd.grouped_allreduce_async_([whole, whole], op=MAX))
    here.close(whole, want)


@check()
def a_misaligned_array_works(here: Here) -> None:
    raw = np.zeros(4 * 1000 + 1, np.uint8)
    odd = raw[1:].view(np.float32)
    assert not odd.flags.aligned
    odd[:] = here.rank + 1
    want = np.full(1000, sum(range(1, here.size + 1)), np.float32)
    here.close(hvd.allreduce(odd, op=SUM), want)
    hvd.allreduce_(odd, op=SUM)
    here.close(odd.copy(), want)


@check()
def a_read_only_tensor_can_be_read_but_not_reduced_in_place(here: Here) -> None:
    locked = np.ones(5, np.float32)
    locked.flags.writeable = False
    assert (hvd.allreduce(locked, op=SUM) == here.size).all()
    for call in (hvd.allreduce_, hvd.allreduce_async_):
        with raises(ValueError, "read-only"):
            call(locked, op=SUM)
        with raises(ValueError, "read-only"):
            call(locked[::2], op=SUM)
    for group in (hvd.grouped_allreduce_, hvd.grouped_allreduce_async_):
        with raises(ValueError, "read-only"):
            group([np.ones(5), locked], op=SUM)
    assert (locked == 1).all()
    assert (hvd.allreduce(locked, op=SUM) == here.size).all()


@check()
def numbers_and_lists_are_taken_as_arrays(here: Here) -> None:
    assert hvd.allreduce(here.rank + 0.5, op=SUM) == sum(r + 0.5 for r in here.ranks)
    assert hvd.allreduce(3, op=MAX) == 3
    assert hvd.allreduce(np.float32(2), op=SUM) == 2 * here.size
    assert hvd.allreduce([1, 2, 3], op=SUM).tolist() == [here.size, 2 * here.size, 3 * here.size]
    assert bool(hvd.allreduce(here.rank == 0, op=MAX)) is True


@check(tags=["engine"])
def tensors_may_be_forgotten_while_they_travel(here: Here) -> None:
    handles = []
    for i in range(50):
        handles.append(
            hvd.allreduce_async(
                np.full(20_000, here.rank + i, np.float32), op=SUM, name=f"lost.{i}"
            )
        )
        gc.collect(0)
    total = sum(here.ranks)
    for i, handle in enumerate(handles):
        assert (hvd.synchronize(handle) == total + i * here.size).all()


@check()
def an_in_place_operation_needs_a_tensor_to_write_into(here: Here) -> None:
    for wrong in (3.0, [1.0, 2.0], np.float32(1)):
        with raises((TypeError, ValueError)):
            hvd.allreduce_(wrong, op=SUM)
        with raises((TypeError, ValueError)):
            hvd.broadcast_(wrong, 0)
    assert hvd.allreduce(1, op=SUM) == here.size


@check()
def positional_arguments_come_in_horovods_order(here: Here) -> None:
    t = np.ones(3, np.float32)
    assert (hvd.allreduce(t, None, "positional", hvd.Sum) == here.size).all()
    hvd.allreduce_(t, None, "positional", hvd.Sum)
    assert (t == here.size).all()
    assert (
        hvd.allreduce(t, None, "positional", hvd.Sum, 2.0, 0.5, hvd.global_process_set)
        == here.size**2
    ).all()
    assert (hvd.broadcast(t, 0, "positional") == t).all()
    assert hvd.allgather(t, "positional").shape == (3 * here.size,)
    out, received = hvd.alltoall(np.ones(here.size), [1] * here.size, "positional")
    assert out.sum() == here.size and received.tolist() == [1] * here.size
    assert hvd.reducescatter(np.ones(here.size), "positional", hvd.Sum).tolist() == [here.size]
    assert len(hvd.grouped_allreduce([t, t], None, "positional", hvd.Sum)) == 2
    assert (hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product) == (0, 1, 2, 3, 4, 5)
