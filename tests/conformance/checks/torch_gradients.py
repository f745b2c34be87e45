"""hvdlite.torch: what is not recorded, sparse gradients, and gradients that are divided first."""

from __future__ import annotations

import torch

import hvdlite.torch as hvd
from checks import check
from checks.here import Here, raises


@check()
def is_not_recorded_where_nobody_asks(here: Here) -> None:
    x = torch.ones(2 * here.size, requires_grad=True)
    with torch.no_grad():
        results = [
            hvd.allreduce(x),
            hvd.allgather(x),
            hvd.broadcast(x, 0),
            hvd.alltoall(x),
            hvd.reducescatter(x),
        ]
    results.append(hvd.alltoall(x, [2] * here.size)[1])
    results += [hvd.synchronize(hvd.allreduce_async(x)), hvd.allreduce(x.detach())]
    assert not any(result.requires_grad for result in results)


@check(min_ranks=2)
def does_not_hide_a_mismatch(here: Here) -> None:
    with raises(hvd.MismatchError, "'torn'"):
        hvd.allreduce(torch.ones(2 + min(here.rank, 1), requires_grad=True), name="torn")


@check(sparse_as_dense=(False, True))
def keeps_how_many_of_its_dimensions_are_sparse(here: Here, sparse_as_dense: bool) -> None:
    words = torch.nn.Embedding(5, 3, sparse=True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(words.parameters(), lr=0.1), sparse_as_dense=sparse_as_dense
    )
    words(torch.tensor([1, 3])).sum().backward()
    optimizer.synchronize()
    gradient = words.weight.grad
    assert gradient is not None
    assert (gradient.layout, gradient.sparse_dim(), gradient.dense_dim()) == (
        torch.sparse_coo,
        1,
        1,
    )
    want = torch.zeros(5, 3)
    want[[1, 3]] = 1
    assert torch.equal(gradient.to_dense(), want)


@check(min_ranks=2, groups=(None, 1))
def does_not_overflow_where_it_is_divided_before_the_sum(here: Here, groups: int | None) -> None:
    weight = torch.nn.Parameter(torch.zeros(3))
    largest = torch.finfo(torch.float32).max
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([weight], lr=0.1), gradient_predivide_factor=8.0, groups=groups
    )
    (weight * (0.75 * largest)).sum().backward()
    optimizer.synchronize()
    # The sum of two of these is no float32; that of their eighths is.
    torch.testing.assert_close(weight.grad, torch.full((3,), 0.75 * largest))
