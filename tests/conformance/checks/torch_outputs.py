"""Results in tensors of torch's that the caller has allocated: their memory is written, and no
copy is made."""

from __future__ import annotations

import numpy as np
import torch

import hvdlite.torch as hvd
from checks import check
from checks.here import SUM, Here, raises
from hvdlite.base.operations import ALLGATHER, ALLTOALL, REDUCESCATTER
from hvdlite.core import engine
from hvdlite.core.engine import run_now
from hvdlite.core.operations import Call
from hvdlite.torch import older
from hvdlite.torch.ops import OPS


@check()
def collectives_write_into_the_tensors_that_they_are_given(here: Here) -> None:
    n = here.size
    lent = [torch.bool] if older.lends_bool() else []
    for dtype in (torch.float32, torch.bfloat16, torch.int64, *lent):
        output = torch.zeros(n, 3, dtype=dtype)
        address = output.data_ptr()
        rows = torch.ones(3, dtype=dtype)
        call = Call(ALLGATHER, f"gather.{dtype}", output=output)
        assert run_now(OPS.start(call, [rows])) is output
        assert output.data_ptr() == address and bool((output == 1).all())
    share = torch.zeros(2)
    call = Call(REDUCESCATTER, "scatter", op=SUM, output=share)
    assert OPS.run(call, [torch.arange(2.0 * n)])[0] is share
    assert share.tolist() == [n * (2.0 * here.rank + i) for i in range(2)]
    exchanged = torch.zeros(n)
    call = Call(ALLTOALL, "exchange", output=exchanged)
    got, received = OPS.run(call, [torch.full((n,), float(here.rank))])
    assert got is exchanged and exchanged.tolist() == list(here.ranks)
    assert received.tolist() == [1] * n


@check()
def the_input_may_be_a_slice_of_the_output(here: Here) -> None:
    output = torch.full((here.size * 1000,), -1.0)
    mine = output.narrow(0, here.rank * 1000, 1000)
    mine.fill_(float(here.rank))
    OPS.run(Call(ALLGATHER, "slice", output=output), [mine])
    assert (output.view(here.size, 1000) == torch.arange(here.size)[:, None]).all()


@check()
def autograd_notices_that_an_output_was_written(here: Here) -> None:
    weight, output = torch.ones(here.size, requires_grad=True), torch.ones(here.size)
    product = weight * output
    OPS.run(Call(ALLGATHER, "noticed", output=output), [torch.ones(1)])
    with raises(RuntimeError, "modified by an inplace operation"):
        product.sum().backward()


@check()
def what_cannot_be_written_into_is_refused_as_an_output(here: Here) -> None:
    transposed = torch.zeros(2, here.size).t()
    if here.size > 1:
        with raises(ValueError, "must be contiguous"):
            OPS.run(Call(ALLGATHER, "strided", output=transposed), [torch.ones(1, 2)])
    with raises(TypeError, "output: a result cannot be written into a ndarray"):
        OPS.run(Call(ALLGATHER, "foreign", output=np.zeros(here.size)), [torch.ones(1)])
    with raises(ValueError, "dtype float32", "dtype float64"):
        OPS.run(
            Call(ALLGATHER, "dtype", output=torch.zeros(here.size, dtype=torch.float64)),
            [torch.ones(1)],
        )


@check()
def the_core_takes_outputs_without_an_adapter(here: Here) -> None:
    """As a backend of torch.distributed submits and waits in another thread."""
    outputs = [torch.zeros(here.size, 4) for _ in range(3)]
    handles = [
        engine.submit(
            ALLGATHER.kind, SUM, 0, f"raw.{i}", torch.full((4,), float(i)), output, 0, 1.0, 1.0, [],
            False,
        )
        for i, output in enumerate(outputs)
    ]  # fmt: skip
    engine.wait_all(handles)
    assert handles == []
    assert [float(output.mean()) for output in outputs] == [0, 1, 2]
    assert hvd.size() == here.size
