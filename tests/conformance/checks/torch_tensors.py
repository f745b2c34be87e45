"""hvdlite.torch: what is special about tensors of torch: strides, autograd's versions, inference
mode, sparse ones."""

from __future__ import annotations

import itertools

import torch

import hvdlite.torch as hvd
from checks import check
from checks.among import process_sets
from checks.here import FLOATS, SUM, Here, raises, reference
from checks.torch_api import array, tensor


@check()
def memory_that_is_not_contiguous_is_read_and_written_as_it_lies(here: Here) -> None:
    inputs = here.everyones("float32", (4, 6))
    want = reference(inputs, SUM)
    for transposed in (
        tensor(inputs[here.rank].T).t(),
        tensor(inputs[here.rank].repeat(2, axis=1))[:, ::2],
    ):
        assert not transposed.is_contiguous()
        here.close(array(hvd.allreduce(transposed, op=SUM)), want)
        before = transposed.stride()
        assert hvd.allreduce_(transposed, op=SUM) is transposed and transposed.stride() == before
        here.close(array(transposed.contiguous()), want)
    image = torch.full((2, 3, 4, 4), float(here.rank)).to(memory_format=torch.channels_last)
    hvd.synchronize(hvd.grouped_allreduce_async_([image], op=SUM))
    assert (image == sum(here.ranks)).all() and image.is_contiguous(
        memory_format=torch.channels_last
    )


@check()
def tensors_of_a_group_in_place_may_share_memory(here: Here) -> None:
    """Each is reduced once."""
    whole = torch.arange(8.0) + here.rank
    want = torch.arange(8.0) * here.size + sum(here.ranks)
    hvd.grouped_allreduce_([whole[2:6], whole, torch.ones(2), whole, whole.view(2, 4).t()], op=SUM)
    here.close(array(whole), want.numpy())


@check()
def a_result_in_place_is_noticed_by_autograd(here: Here) -> None:
    weight = torch.ones(3, requires_grad=True)
    base = torch.ones(3)
    product = weight * base
    hvd.synchronize(hvd.allreduce_async_(base, op=SUM))
    with raises(RuntimeError, "modified by an inplace operation"):
        product.sum().backward()
    # A leaf may be overwritten: who asks for that means its value.
    with torch.no_grad():
        weight += here.rank
    assert (
        hvd.broadcast_(weight, 0) is weight
        and weight.tolist() == [1, 1, 1]
        and weight.requires_grad
    )


@check()
def tensors_of_inference_mode_are_tensors(here: Here) -> None:
    with torch.inference_mode():
        place = torch.ones(3)
        assert (hvd.allreduce(place, op=SUM) == here.size).all()
        assert hvd.allreduce_(place, op=SUM) is place and (place == here.size).all()


@check(op=("Average", "Sum"))
def sparse_tensors_add_up(here: Here, op: str) -> None:
    with process_sets(here) as sets:
        for among, name in itertools.product(sets, (*FLOATS, "int32", "int64")):
            dtype = getattr(torch, name)
            if op == "Average" and not dtype.is_floating_point:
                continue
            n = len(among.members)
            # Two entries of each member: one of its own, one that all share; and none at all.
            rows = torch.zeros(n + 1, 3)
            rows[[0, 1 + among.mine]] = here.rank + 1.0
            how = {"name": "sparse", "op": getattr(hvd, op), "process_set": among.process_set}
            got = hvd.sparse_allreduce_async(rows.to(dtype).to_sparse(1), **how)()
            want = torch.zeros(n + 1, 3)
            want[0] = sum(r + 1 for r in among.members)
            for i, r in enumerate(among.members):
                want[1 + i] = r + 1
            assert got.dtype == dtype and got.is_coalesced()
            torch.testing.assert_close(
                got.to_dense(), (want / n if op == "Average" else want).to(dtype)
            )
            empty = torch.zeros(4, 3, dtype=dtype).to_sparse(1)
            assert not hvd.sparse_allreduce_async(empty, **how)().to_dense().any()
    with raises(ValueError, "sparse"):
        hvd.sparse_allreduce_async(torch.ones(3), "dense", hvd.Sum)
    with raises(ValueError, "sparse_allreduce_async"):
        hvd.allreduce(empty)
    with raises(NotImplementedError):
        hvd.sparse_allreduce_async(empty, "max", hvd.Max)
