"""SyncBatchNorm is torch's BatchNorm on the whole batch."""

from __future__ import annotations

from typing import Any

import torch

import hvdlite.torch as hvd
from checks import check
from checks.here import Here, raises
from checks.torch_training import alone, mean_square, same, sgd, together

KINDS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "1d": (torch.nn.BatchNorm1d, ()),
    "1d with time": (torch.nn.BatchNorm1d, (5,)),
    "2d": (torch.nn.BatchNorm2d, (4, 3)),
    "3d": (torch.nn.BatchNorm3d, (2, 2, 3)),
}


def _rows(here: Here) -> list[int]:
    return [3 + r for r in here.ranks]


def _compare(
    here: Here, whole: Any, shape: tuple[int, ...], tolerance: float, dtype: torch.dtype, **how: Any
) -> None:
    mine = hvd.SyncBatchNorm(4, **how).to(dtype)
    mine.load_state_dict(whole.state_dict())
    generator = torch.Generator().manual_seed(3)
    sizes = _rows(here)
    start = sum(sizes[: here.rank])
    for _ in range(3):
        x = (torch.randn((sum(sizes), 4, *shape), generator=generator) * 3 + 50).to(dtype)
        gradient = torch.randn(x.shape, generator=generator).to(dtype)
        own = slice(start, start + sizes[here.rank])
        a, b = x.clone().requires_grad_(), x[own].clone().requires_grad_()
        for module in (whole, mine):
            module.zero_grad()
        whole(a).backward(gradient)
        y = mine(b)
        y.backward(gradient[own])
        torch.testing.assert_close(b.grad, a.grad[own], rtol=tolerance, atol=tolerance)
        for (name, theirs), ours in zip(whole.named_parameters(), mine.parameters(), strict=True):
            total = hvd.allreduce(ours.grad, op=hvd.Sum)  # each rank has its own rows' part
            torch.testing.assert_close(
                total, theirs.grad, rtol=tolerance, atol=tolerance * 10, msg=name
            )
    for (name, theirs), ours in zip(
        whole.state_dict().items(), mine.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(
            ours, theirs, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )
    mine.eval(), whole.eval()
    x = torch.randn((2, 4, *shape), generator=generator).to(dtype)
    torch.testing.assert_close(mine(x), whole(x), rtol=tolerance, atol=tolerance)


@check(kind=tuple(KINDS))
def forward_backward_and_statistics_are_those_of_the_whole_batch(here: Here, kind: str) -> None:
    make, shape = KINDS[kind]
    for how in ({}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}):
        torch.manual_seed(5)
        whole = make(4, **how).double()
        if how.get("affine", True):
            with torch.no_grad():
                whole.weight.uniform_(0.5, 2)
                whole.bias.uniform_(-1, 1)
        if how.get("track_running_stats", True):
            _compare(here, whole, shape, 1e-8, torch.float64, **how)
        else:
            mine = hvd.SyncBatchNorm(4, **how).double()
            mine.load_state_dict(whole.state_dict())
            x = torch.randn((2, 4, *shape), dtype=torch.float64)
            torch.testing.assert_close(mine.eval()(x), whole.eval()(x))
            mine.train()(x.requires_grad_()).sum().backward()


@check()
def the_output_is_that_of_the_whole_batch(here: Here) -> None:
    torch.manual_seed(9)
    x = torch.randn(here.size * 4, 3, 5, dtype=torch.float64)
    whole = torch.nn.BatchNorm1d(3).double()(x)
    mine = hvd.SyncBatchNorm(3).double()(x[here.rank * 4 : here.rank * 4 + 4])
    torch.testing.assert_close(mine, whole[here.rank * 4 : here.rank * 4 + 4], rtol=1e-9, atol=1e-9)
    for dtype in (torch.float32, torch.bfloat16):
        got = hvd.SyncBatchNorm(3).to(dtype)(x[here.rank * 4 : here.rank * 4 + 4].to(dtype))
        assert got.dtype == dtype
        limit = 1e-4 if dtype == torch.float32 else 0.05
        torch.testing.assert_close(
            got.double(), whole[here.rank * 4 : here.rank * 4 + 4], rtol=limit, atol=limit
        )


@check(min_ranks=2)
def a_rank_may_have_no_rows_at_all(here: Here) -> None:
    torch.manual_seed(2)
    x = torch.randn(6, 3, dtype=torch.float64)
    own = x if here.rank == 0 else x[:0]
    norm = hvd.SyncBatchNorm(3).double()
    y = norm(own.clone().requires_grad_())
    y.sum().backward()
    assert y.shape == own.shape
    torch.testing.assert_close(norm.running_mean, x.mean(0) * 0.1)


@check()
def training_with_it_equals_a_single_process_with_batch_norm(here: Here) -> None:
    def make(norm: Any) -> torch.nn.Module:
        torch.manual_seed(1)
        return torch.nn.Sequential(
            torch.nn.Linear(6, 5), norm(5), torch.nn.ReLU(), torch.nn.Linear(5, 3)
        ).double()

    got = together(here, sgd, net=make(hvd.SyncBatchNorm), loss=mean_square)
    same(
        here,
        got,
        alone(here, sgd, net=make(torch.nn.BatchNorm1d), loss=mean_square),
        rtol=1e-8,
        atol=1e-9,
    )


@check()
def an_input_of_one_dimension_is_refused(here: Here) -> None:
    with raises(ValueError, "2D"):
        hvd.SyncBatchNorm(3)(torch.ones(3))
