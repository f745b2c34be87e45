"""Results in memory of the caller's: what adapters ask of the core, and no copy beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import DTYPES, SUM, Here, raises
from hvdlite.base.operations import ALLGATHER, ALLTOALL, REDUCESCATTER
from hvdlite.core.arrays.ops import OPS
from hvdlite.core.engine import run_now
from hvdlite.core.operations import Call

SIZES = (1, 7, 9000)  # rows: in one piece, and in several


def _gather(here: Here, tensor: Any, output: Any, name: str | None = None) -> Any:
    return OPS.run_one(tensor, ALLGATHER, name, hvd.global_process_set, output=output)


@check()
def an_allgather_is_written_into_the_output_itself(here: Here) -> None:
    for dtype in DTYPES:
        for rows in SIZES:
            inputs = [here.data(dtype, (rows + r, 2), r) for r in here.ranks]
            want = np.concatenate(inputs)
            output = np.zeros_like(want)
            got = _gather(here, inputs[here.rank], output, f"{dtype}.{rows}")
            assert got is output
            here.close(output, want, exact=True)


@check()
def an_output_needs_the_elements_of_the_result_and_not_its_shape(here: Here) -> None:
    mine = here.data("float32", (5, 2), here.rank)
    want = np.stack(here.everyones("float32", (5, 2)))
    stacked, flat = np.zeros_like(want), np.zeros(want.size, np.float32)
    assert _gather(here, mine, stacked) is stacked and _gather(here, mine, flat) is flat
    here.close(stacked, want, exact=True)
    here.close(flat, want.ravel(), exact=True)


@check()
def the_input_of_an_allgather_may_be_its_rows_of_the_output(here: Here) -> None:
    for rows in SIZES:
        want = np.stack(here.everyones("int32", (rows, 3), rows))
        output = np.full_like(want, -1)
        output[here.rank] = want[here.rank]
        _gather(here, output[here.rank], output)
        here.close(output, want, exact=True)


@check()
def an_alltoall_is_written_into_the_output_itself(here: Here) -> None:
    for rows in SIZES:
        # Rank r sends r + to * rows rows to each rank `to`.
        splits = [here.rank + to * rows for to in here.ranks]
        received = [source + here.rank * rows for source in here.ranks]
        tensor = np.full((sum(splits), 2), here.rank, np.int16)
        want = np.repeat(np.array(here.ranks, np.int16), received)
        output = np.full((len(want), 2), -1, np.int16)
        call = Call(ALLTOALL, f"x{rows}", splits=splits, output=output)
        for run in (OPS.run, lambda call, tensors: run_now(OPS.start(call, tensors))):
            got, counts = run(call, [tensor])
            assert got is output and counts.tolist() == received
            assert (output == want[:, np.newaxis]).all()
            output[:] = -1


@check()
def a_reducescatter_is_written_into_the_output_itself(here: Here) -> None:
    for rows in SIZES:
        total = rows * here.size + 1
        inputs = here.everyones("int64", (total,), rows)
        begin = here.rank * rows + (here.rank > 0)
        want = np.sum(inputs, axis=0)[begin : begin + rows + (here.rank == 0)]
        output = np.zeros_like(want)
        got = OPS.run_one(
            inputs[here.rank], REDUCESCATTER, None, hvd.global_process_set, SUM, output=output
        )
        assert got is output
        here.close(output, want, exact=True)


@check()
def tensors_of_a_group_have_outputs_of_their_own(here: Here) -> None:
    inputs = [[here.data("float32", (r + 1, n), r) for n in (1, 4)] for r in here.ranks]
    wants = [np.concatenate(parts) for parts in zip(*inputs, strict=True)]
    outputs = [np.zeros_like(want) for want in wants]
    call = Call(ALLGATHER, "group", grouped=True, output=outputs)
    for _ in range(2):
        got = OPS.run(call, inputs[here.rank])
        for one, output, want in zip(got, outputs, wants, strict=True):
            assert one is output
            here.close(output, want, exact=True)
            output[:] = 0


@check()
def an_output_that_cannot_be_written_into_is_refused_before_anything_happens(here: Here) -> None:
    mine, count = np.ones(4, np.float32), 4 * here.size
    fixed = np.ones(count, np.float32)
    fixed.flags.writeable = False
    for output, kind, words in (
        (np.ones(count, np.float64), ValueError, ("dtype float32", "dtype float64")),
        (np.ones(2 * count, np.float32)[::2], ValueError, ("must be contiguous",)),
        (fixed, ValueError, ("read-only",)),
        ("text", TypeError, ("got str",)),
    ):
        with raises(kind, *words):
            _gather(here, mine, output)
    with raises(ValueError, "of shape [4]", "shape [5]"):
        OPS.run_one(
            np.ones(4 * here.size), REDUCESCATTER, None, hvd.global_process_set, SUM,
            output=np.ones(5),
        )  # fmt: skip
    assert hvd.allreduce(1, op=SUM) == here.size


@check()
def an_output_of_another_size_fails_on_its_rank_only(here: Here) -> None:
    odd = here.rank == here.size - 1
    for name in (None, "named", "named"):
        output = np.zeros(3 * here.size + odd, np.float32)
        if odd:
            words = f"the result has shape [{3 * here.size}] on this rank, but the output has shape"
            with raises(ValueError, words):
                _gather(here, np.ones(3, np.float32), output, name)
            assert not output.any()
        else:
            _gather(here, np.ones(3, np.float32), output, name)
            assert output.all()
    assert hvd.allreduce(1, op=SUM) == here.size
