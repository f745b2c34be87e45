"""DistributedOptimizer where ranks differ in which gradients they have: what one lacks is zeros, of
the kind that others have."""

from __future__ import annotations

import functools
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import check, needs
from checks.here import Here, raises
from checks.torch_amp import RECIPES, WITH, make_of, options_of
from checks.torch_training import (
    Training,
    as_in_one_process,
    backward,
    batches,
    distributed,
    equal_everywhere,
    mean_square,
    model,
    part,
    same,
    sgd,
)


def _lacking(here: Here, step: int) -> set[int]:
    """The ranks that have no batch in this step."""
    return {1: {0}, 3: {here.size - 1}, 4: set(here.ranks[1:])}.get(step, set())


SPIKE = 2  # the step in which the last rank's loss overflows: nobody makes it


@check(min_ranks=2, recipe=(*RECIPES, *(f"pytorch {what}" for what in WITH)))
def a_rank_without_a_batch_takes_part_in_a_scalers_step(here: Here, recipe: str) -> None:
    needs(hasattr(torch.amp, "GradScaler"), "a GradScaler for the CPU (torch 2.3)")

    def train(run: Training, cleared_by: str) -> float:
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=3)
        for step, (x, y) in enumerate(batches(here, 7)):
            (
                run.optimizer if cleared_by == "optimizer" or not run.distributed else run.net
            ).zero_grad()
            for rank in [here.rank] if run.distributed else here.ranks:
                if rank in _lacking(here, step):
                    continue
                rows = slice(4 * rank, 4 * rank + 4)
                spike = float("inf") if step == SPIKE and rank == here.size - 1 else 1.0
                loss = (
                    mean_square(run.net, x[rows], y[rows])
                    * spike
                    / (1 if run.distributed else here.size)
                )
                scaler.scale(loss).backward()  # with accumulation, one pass of two
            run.step_of(scaler, recipe)
        return float(scaler.get_scale())

    for cleared_by in ("optimizer", "model"):
        program = functools.partial(train, cleared_by=cleared_by)
        as_in_one_process(here, program, make_of(recipe), **options_of(recipe))


@check(min_ranks=2)
def a_rank_without_a_batch_takes_part_in_a_scalers_step_with_adasum_too(here: Here) -> None:
    needs(hasattr(torch.amp, "GradScaler"), "a GradScaler for the CPU (torch 2.3)")
    (net, optimizer), scaler = (
        distributed(op=hvd.Adasum),
        torch.amp.GradScaler("cpu", init_scale=2.0**8),
    )
    for step, (x, y) in enumerate(batches(here, 5)):
        before = net[0].weight.detach().clone()
        optimizer.zero_grad()
        overflow = step in (SPIKE, 3)
        if here.rank not in {1: {0}, 3: set(here.ranks[:-1])}.get(step, set()):
            spike = float("inf") if overflow and here.rank == here.size - 1 else 1.0
            scaler.scale(mean_square(net, part(here, x), part(here, y)) * spike).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(net[0].weight, before) == overflow, step
        equal_everywhere(net)
    assert scaler.get_scale() == 2.0**6


@check(min_ranks=2, op=("Average", "Adasum"))
def a_scaler_that_finds_a_gradient_on_no_rank_says_so_on_all(here: Here, op: str) -> None:
    needs(hasattr(torch.amp, "GradScaler"), "a GradScaler for the CPU (torch 2.3)")
    (_, optimizer), scaler = distributed(op=getattr(hvd, op)), torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(1))
    with raises(AssertionError, "No inf checks"):  # torch's, as in a single process
        scaler.step(optimizer)
    hvd.barrier()


@check(min_ranks=2)
def a_scaler_that_looks_up_the_learning_rate_does_not_wait(here: Here) -> None:
    needs(hasattr(torch.amp, "GradScaler"), "a GradScaler for the CPU (torch 2.3)")

    class Curious(torch.amp.GradScaler):
        def rate(self, optimizer: Any) -> float:
            return float(optimizer.param_groups[0]["lr"])

    (net, optimizer), scaler = distributed(), Curious("cpu")
    if here.rank == 0:
        assert scaler.rate(optimizer) == 0.2
    hvd.barrier()
    x, y = batches(here, 1)[0]
    scaler.scale(mean_square(net, part(here, x), part(here, y))).backward()
    scaler.step(optimizer)
    equal_everywhere(net)


class _Pairs(torch.autograd.Function):
    """The sum of some elements of a table; its gradient is sparse in as many dimensions as they are
    addressed by."""

    @staticmethod
    def forward(ctx: Any, table: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        ctx.where, ctx.shape = where, table.shape
        return table[tuple(where)].sum()

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:
        values = dy * torch.ones(
            ctx.where.shape[1], *ctx.shape[ctx.where.shape[0] :], dtype=dy.dtype
        )
        return torch.sparse_coo_tensor(ctx.where, values, ctx.shape), None


# Who uses the table in each step, by rank from the first and from the last on.
_USERS: tuple[tuple[int, ...], ...] = ((0,), (-1,), (), (0, -1), (0,))


@check(
    min_ranks=2,
    how=("alone", "named", "as dense", "in groups", "with accumulation", "with compression"),
)
def where_only_some_ranks_have_a_sparse_gradient_the_others_count_as_zeros(
    here: Here, how: str
) -> None:
    def train(distributed: bool, dimensions: int) -> torch.nn.Module:
        net = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.ones(4, 3, 2).double()) for _ in range(2)]
        )
        # SparseAdam takes nothing but sparse gradients, and leaves alone what has none.
        optimizers: list[Any] = [torch.optim.SparseAdam([net[0]], lr=0.1), sgd([net[1]])]
        names: list[Any] = [[("table", net[0])], [("other", net[1])]]
        if how == "in groups":
            optimizers, names = [torch.optim.SGD(net.parameters(), lr=0.1)], [names[0] + names[1]]
        if distributed:
            optimizers = [
                hvd.DistributedOptimizer(o, n if how == "named" else None, **options)
                for o, n in zip(optimizers, names, strict=True)
            ]
        for step, users in enumerate(_USERS):
            for optimizer in optimizers:
                optimizer.zero_grad()
            ranks = {range(here.size)[user] for user in users}
            for rank in [here.rank] if distributed else here.ranks:
                share = 1 if distributed else here.size
                if rank in ranks:
                    where = torch.tensor([[0, rank % 4, 3, 0], [0, 1, rank % 3, 0]])[:dimensions]
                    (_Pairs.apply(net[0], where) * (step + 1 + rank) / share).backward()
                if rank == 0:
                    ((net[1] * (rank + 1)).sum() / share).backward()
            for optimizer in optimizers:
                optimizer.step()
            assert (net[0].grad is None) == (not users), step
        return net

    options: dict[str, Any] = {
        "as dense": {"sparse_as_dense": True},
        "in groups": {"groups": 1},
        "with accumulation": {"backward_passes_per_step": 2},
        "with compression": {"compression": hvd.Compression.bf16},
    }.get(how, {})
    loose = {"rtol": 0.02, "atol": 0.02} if how == "with compression" else {}
    for dimensions in (1, 2):
        same(here, train(True, dimensions), train(False, dimensions), **loose)


@check(min_ranks=2)
def a_gradient_that_is_dense_on_one_rank_and_sparse_on_another_is_named(here: Here) -> None:
    tables = torch.nn.ParameterList(
        [torch.nn.Parameter(torch.ones(4, 2).double()) for _ in range(3)]
    )
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(tables.parameters(), lr=0.1),
        [("in", tables[0]), ("tied", tables[1]), ("out", tables[2])],
    )
    tables[0].sum().backward()
    if here.rank == 0:
        tables[1].sum().backward()
    else:
        torch.nn.functional.embedding(torch.tensor([1]), tables[1], sparse=True).sum().backward()
    others = "rank 1" if here.size == 2 else "ranks 1 and 2"
    with raises(
        hvd.MismatchError, "'tied'", "dense on rank 0", f"sparse on {others}", "sparse_as_dense"
    ) as caught:
        optimizer.step()
    here.same_on_all_ranks(str(caught[0]))


@check(min_ranks=2, begun=("at once", "later", "later with accumulation"))
def a_parameter_that_one_rank_alone_trains_is_named(here: Here, begun: str) -> None:
    first, passes = (0 if begun == "at once" else 2), (2 if "accumulation" in begun else 1)
    net = model()
    net[0].requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(
        sgd(net.parameters()), net.named_parameters(), backward_passes_per_step=passes
    )
    for step, (x, y) in enumerate(batches(here, 3)):
        optimizer.zero_grad()
        if step == first and here.rank == here.size - 1:
            net[0].weight.requires_grad_(True)
        mean_square(net, part(here, x), part(here, y)).backward()
        if step < first:
            optimizer.step()
            continue
        others = "rank 0" if here.size == 2 or begun == "at once" else "ranks 0 and 1"
        words = ("'0.weight'", f"rank {here.size - 1}", others, "requires_grad")
        with raises(hvd.MismatchError, *words) as caught:
            optimizer.step()
        here.same_on_all_ranks(str(caught[0]))
        break
    hvd.barrier()


@check(min_ranks=2)
def a_parameter_that_one_rank_freezes_counts_as_zeros_there(here: Here) -> None:
    net, optimizer = distributed(make=lambda p: torch.optim.SGD(p, lr=1.0))
    before = net[0].weight.detach().clone()
    net[0].weight.requires_grad_(here.rank == 0)
    (net[0].weight.sum() + net[0].bias.sum()).backward()
    optimizer.step()
    torch.testing.assert_close(net[0].weight.detach(), before - 1 / here.size)
    equal_everywhere(net)


@check(min_ranks=2)
def param_groups_that_one_rank_alone_adds_are_told(here: Here) -> None:
    net = model()
    optimizer = hvd.DistributedOptimizer(sgd(net[2].parameters()), net[2].named_parameters())
    backward(here, net)
    optimizer.step()
    if here.rank == 0:
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]})
    with raises(hvd.MismatchError, "add_param_group", "rank 0"):
        optimizer.step()
