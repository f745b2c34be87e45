"""hvdlite.torch: the gradient of each collective is the rule of hvdlite/core/gradients.py."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import torch

import hvdlite.torch as hvd
from checks import check
from checks.among import Among, process_sets
from checks.here import AVERAGE, FLOATS, OPS, PRODUCT, SUM, Here, dtype_of, reference
from checks.torch_here import array, tensor

SHAPE = (6, 2)


def _inputs(here: Here, among: Among, dtype: str, *key: object, shape: tuple[int, ...] = SHAPE) -> list[np.ndarray]:
    return among.of(here.everyones(dtype, shape, *key))


def _cases(here: Here, sets: list[Among]) -> Iterator[tuple[Among, str]]:
    """Every process set with every dtype that has gradients."""
    return itertools.product(sets, FLOATS)


def _leaf(values: np.ndarray) -> torch.Tensor:
    return tensor(values).requires_grad_()


@check(form=("plain", "in place", "grouped", "grouped in place"))
def of_allreduce_is_the_same_allreduce(here: Here, form: str) -> None:
    with process_sets(here) as sets:
        for (among, dtype), (label, op) in itertools.product(_cases(here, sets), OPS.items()):
            ones = [np.ones(SHAPE, dtype_of(dtype))] * len(among.members)
            values = _inputs(here, among, dtype, label, "x") if op != PRODUCT else ones
            gradients = _inputs(here, among, dtype, label, "dy")
            x = _leaf(values[among.mine])
            how = {"op": op, "prescale_factor": 0.5, "postscale_factor": 4.0, "process_set": among.process_set}
            doubled = x * 2
            if form == "plain":
                y = hvd.allreduce(doubled, name="named", **how)
            elif form == "in place":
                y = hvd.allreduce_(doubled, **how)
                assert y is doubled
            elif form == "grouped":
                y, other = hvd.grouped_allreduce([doubled, x * 4], **how)
                here.close(array(other), reference([v * 4 for v in values], op, 0.5, 4.0), exact=False)
            else:
                y, _ = hvd.grouped_allreduce_([doubled, x * 3], **how)
            y.backward(tensor(gradients[among.mine]))
            assert x.grad.dtype == x.dtype
            here.close(array(x.grad), reference(gradients, op, 0.5, 4.0) * 2, f"{label} of {dtype}", exact=False)


@check()
def of_a_gradient_exists(here: Here) -> None:
    x = torch.full((3,), 2.0 + here.rank, requires_grad=True)
    y = hvd.allreduce(x**3, op=SUM)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    torch.testing.assert_close(first, here.size * 3 * x**2)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, here.size * 6 * x.detach())


@check(grouped=(False, True))
def of_allgather_is_the_average_of_ones_own_rows(here: Here, grouped: bool) -> None:
    with process_sets(here) as sets:
        for among, dtype in _cases(here, sets):
            sizes = [1 + (r * 2) % 3 for r in among.members]
            start = sum(sizes[: among.mine])
            x = _leaf(here.data(dtype, (sizes[among.mine], 2), here.rank))
            gradients = _inputs(here, among, dtype, shape=(sum(sizes), 2))
            how = {"process_set": among.process_set}
            y = hvd.grouped_allgather([x, x], **how)[1] if grouped else hvd.allgather(x, name="rows", **how)
            y.backward(tensor(gradients[among.mine]))
            want = reference(gradients, AVERAGE)[start : start + sizes[among.mine]]
            here.close(array(x.grad), want, dtype, exact=False)


@check(in_place=(False, True))
def of_broadcast_is_the_average_on_the_root_and_nothing_elsewhere(here: Here, in_place: bool) -> None:
    with process_sets(here) as sets:
        for among, dtype in _cases(here, sets):
            root = among.members[-1]
            x = _leaf(here.data(dtype, SHAPE, here.rank))
            gradients = _inputs(here, among, dtype, "dy")
            how = {"process_set": among.process_set}
            y = hvd.broadcast_(x * 2, root, **how) if in_place else hvd.broadcast(x * 2, root, "named", **how)
            y.backward(tensor(gradients[among.mine]))
            want = reference(gradients, AVERAGE)
            here.close(array(x.grad), 2 * want if here.rank == root else np.zeros_like(want), dtype, exact=False)


@check(with_splits=(False, True))
def of_alltoall_is_the_way_back(here: Here, with_splits: bool) -> None:
    with process_sets(here) as sets:
        for among, dtype in _cases(here, sets):
            n = len(among.members)
            splits = [[1 + (i + j) % 2 if with_splits else 1 for j in range(n)] for i in range(n)]
            idle = 2 if with_splits else 0  # rows that go nowhere
            rows = [sum(row) for row in splits]
            values = [here.data(dtype, (rows[i] + idle, 2), r) for i, r in enumerate(among.members)]
            x = _leaf(values[among.mine])
            how = {"process_set": among.process_set}
            if with_splits:
                y, received = hvd.alltoall(x * 2, splits[among.mine], **how)
                assert not received.requires_grad
            else:
                y = hvd.alltoall(x * 2, **how)
            # Every row's gradient is its own value: it must come back to where it was.
            y.backward(y.detach())
            want = 4 * values[among.mine]
            want[rows[among.mine] :] = 0
            here.close(array(x.grad), want, dtype, exact=False)


@check(op=("Average", "Sum"))
def of_reducescatter_is_the_allgather(here: Here, op: str) -> None:
    with process_sets(here) as sets:
        for among, dtype in _cases(here, sets):
            n = len(among.members)
            rows = n + 1
            sizes = [rows // n + (i < rows % n) for i in range(n)]
            x = _leaf(here.data(dtype, (rows, 2), here.rank))
            gradients = [here.data(dtype, (size, 2), r, "dy") for size, r in zip(sizes, among.members, strict=True)]
            how = {"op": getattr(hvd, op), "prescale_factor": 0.5, "postscale_factor": 4.0}
            for y in (
                hvd.reducescatter(x, name="part", process_set=among.process_set, **how),
                hvd.grouped_reducescatter([x, x], process_set=among.process_set, **how)[0],
            ):
                x.grad = None
                y.backward(tensor(gradients[among.mine]))
                factor = dtype_of(dtype).type(2.0 * (n if op == "Sum" else 1))
                here.close(array(x.grad), np.concatenate(gradients) * factor, dtype, exact=False)


@check(op=("Average", "Sum"))
def of_reduce_is_the_broadcast_of_the_roots_and_ones_own_elsewhere(here: Here, op: str) -> None:
    with process_sets(here) as sets:
        for among, dtype in _cases(here, sets):
            root = among.members[-1]
            gradients = _inputs(here, among, dtype, "dy")
            x = _leaf(_inputs(here, among, dtype, "x")[among.mine])
            how = {"op": getattr(hvd, op), "prescale_factor": 0.5, "postscale_factor": 4.0}
            hvd.reduce(x, root, name="reduced", process_set=among.process_set, **how).backward(
                tensor(gradients[among.mine])
            )
            factor = dtype_of(dtype).type(2.0 * (len(among.members) if op == "Sum" else 1))
            own = gradients[among.mine] * dtype_of(dtype).type(here.rank != root)
            here.close(array(x.grad), gradients[-1] * factor + own, dtype, exact=False)


@check()
def passes_through_compression(here: Here) -> None:
    x = torch.ones(4, requires_grad=True)
    hvd.allreduce(x, op=SUM, compression=hvd.Compression.bf16).sum().backward()
    assert x.grad.dtype == torch.float32 and x.grad.tolist() == [here.size] * 4


@check()
def is_not_recorded_where_nobody_asks(here: Here) -> None:
    x = torch.ones(2 * here.size, requires_grad=True)
    with torch.no_grad():
        results = [hvd.allreduce(x), hvd.allgather(x), hvd.broadcast(x, 0), hvd.alltoall(x), hvd.reducescatter(x)]
    results += [hvd.synchronize(hvd.allreduce_async(x)), hvd.allreduce(x.detach())]
    assert not any(result.requires_grad for result in results)


@check(sparse_as_dense=(False, True))
def keeps_how_many_of_its_dimensions_are_sparse(here: Here, sparse_as_dense: bool) -> None:
    words = torch.nn.Embedding(5, 3, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(words.parameters(), lr=0.1), sparse_as_dense=sparse_as_dense)
    words(torch.tensor([1, 3])).sum().backward()
    optimizer.synchronize()
    gradient = words.weight.grad
    assert gradient is not None
    assert (gradient.layout, gradient.sparse_dim(), gradient.dense_dim()) == (torch.sparse_coo, 1, 1)
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
