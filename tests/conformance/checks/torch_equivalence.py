"""Training with DistributedOptimizer gives the weights of a single process on the global batch."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import lr_scheduler as schedules

import hvdlite.torch as hvd
from checks import COSTLY, check
from checks.here import Here
from checks.torch_functions import OPTIMIZERS, make_optimizer
from checks.torch_training import (
    Training,
    alone,
    as_in_one_process,
    batches,
    distributed,
    equal_everywhere,
    mean_square,
    model,
    part,
    same,
    sgd,
    together,
)


@check(optimizer=OPTIMIZERS)
def with_each_optimizer(here: Here, optimizer: str) -> None:
    def make(parameters: Any) -> torch.optim.Optimizer:
        return make_optimizer(optimizer, parameters, lr=0.05)

    same(here, together(here, make), alone(here, make))


@check(
    how=(
        "groups=1",
        "groups=2",
        "groups=99",
        "lists",
        "num_groups",
        "predivide",
        "predivide in groups",
    )
)
def with_options_that_change_the_way_but_not_the_result(here: Here, how: str) -> None:
    net = model()
    options: dict[str, Any] = {
        "groups=1": {"groups": 1},
        "groups=2": {"groups": 2},
        "groups=99": {"groups": 99},
        "lists": {"groups": [[net[0].weight, net[2].bias], [net[0].bias]]},
        "num_groups": {"num_groups": 3},
        "predivide": {"gradient_predivide_factor": 4.0},
        "predivide in groups": {"gradient_predivide_factor": 0.5, "groups": 2},
    }[how]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        same(here, together(here, sgd, net=net, **options), alone(here, sgd))


@check()
def with_sums(here: Here) -> None:
    def total(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (net(x) - y).pow(2).sum() / 100

    same(here, together(here, sgd, loss=total, op=hvd.Sum), alone(here, sgd, loss=total))


@check(compression=("fp16", "bf16"))
def with_compression_nearly(here: Here, compression: str) -> None:
    want = alone(here, sgd, net=model(dtype=torch.float32))
    for groups in (None, 2):
        got = together(
            here,
            sgd,
            net=model(dtype=torch.float32),
            compression=getattr(hvd.Compression, compression),
            groups=groups,
        )
        same(here, got, want, rtol=0.05, atol=0.02)


@check(how=("alone", "groups", "predivide", "predivide in groups", "clipping", "sums", "closure"))
def with_accumulation_whose_gradients_are_added_up(here: Here, how: str) -> None:
    options: dict[str, Any] = {"op": hvd.Sum} if how == "sums" else {}
    if "groups" in how:
        options["groups"] = 2
    if "predivide" in how:
        options["gradient_predivide_factor"] = 2.0

    def train(run: Training) -> None:
        micro = batches(here, 7)

        def passes(first: int) -> torch.Tensor:
            run.optimizer.zero_grad()
            total = torch.zeros(())
            for x, y in micro[first : first + 3]:  # the last step comes after one pass
                loss = run.loss(x, y)
                loss = loss / here.size if run.distributed and how == "sums" else loss
                loss.backward()
                total = total + loss.detach()
            return total

        for first in (0, 3, 6):
            if how == "closure":
                run.optimizer.step(lambda first=first: passes(first))
                continue
            passes(first)
            if how == "clipping":
                run.clip_and_step()
            else:
                run.optimizer.step()
        if run.distributed:
            run.optimizer.set_backward_passes_per_step(1)
            run.optimizer.zero_grad()

    as_in_one_process(here, train, backward_passes_per_step=3, **options)


@check(op=("Average", "Sum"))
def with_gradients_that_are_kept_from_step_to_step(here: Here, op: str) -> None:
    # Without zero_grad() what comes home is added to: Average leaves equal parts as they are, Sum
    # multiplies them.
    def train(run: Training) -> None:
        for step, (x, y) in enumerate(batches(here, 6)):
            if step % 3 == 0:
                run.optimizer.zero_grad()
            elif not run.distributed and op == "Sum":
                for parameter in run.net.parameters():
                    parameter.grad *= here.size
            loss = run.loss(x, y)
            (loss / here.size if run.distributed and op == "Sum" else loss).backward()
            run.optimizer.step()

    as_in_one_process(
        here, train, lambda parameters: torch.optim.SGD(parameters, lr=0.05), op=getattr(hvd, op)
    )


@check()
def with_clipping_of_the_reduced_gradient(here: Here) -> None:
    def train(run: Training) -> None:
        for _, x, y in run.steps(5):
            run.loss(x, y).backward()
            run.clip_and_step()

    as_in_one_process(here, train)


@check()
def with_a_closure(here: Here) -> None:
    net, optimizer = distributed()
    for x, y in batches(here, 5):

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            optimizer.zero_grad()
            loss = mean_square(net, part(here, x), part(here, y))
            loss.backward()
            return loss

        assert optimizer.step(closure).requires_grad
    same(here, net, alone(here, sgd))


@check(sparse_as_dense=(False, True))
def with_a_sparse_embedding(here: Here, sparse_as_dense: bool) -> None:
    class Words(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.words = torch.nn.Embedding(20, 3, sparse=True).double()
            self.out = torch.nn.Linear(3, 2).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.words(x)).tanh()

    def train(distributed: bool) -> torch.nn.Module:
        net = Words()
        # SparseAdam takes nothing but sparse gradients.
        optimizers: list[Any] = [
            torch.optim.SparseAdam(net.words.parameters(), lr=0.1),
            torch.optim.SGD(net.out.parameters(), lr=0.1)
        ]  # fmt: skip
        if distributed:
            optimizers = [
                hvd.DistributedOptimizer(o, sparse_as_dense=sparse_as_dense) for o in optimizers
            ]
        generator = torch.Generator().manual_seed(11)
        for step in range(5):
            x = torch.randint(20, (here.size * 4,), generator=generator)
            for optimizer in optimizers:
                optimizer.zero_grad()
            used = part(here, x) if distributed else x
            # In step 3 the embedding takes no part anywhere, in step 4 only on rank 0.
            if step == 3 or (step == 4 and distributed and here.rank > 0):
                loss = net.out.weight.pow(2).mean() + net.out.bias.pow(2).mean()
            elif step == 4:
                loss = net(x[:4]).pow(2).mean() / (here.size if not distributed else 1)
                rest = net.out.weight.pow(2).mean() + net.out.bias.pow(2).mean()
                loss = loss + (rest * (here.size - 1) / here.size if not distributed else 0)
            else:
                loss = net(used).pow(2).mean()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
        return net

    same(here, train(True), train(False))


@check()
def with_parameters_that_get_no_gradient_in_a_step(here: Here) -> None:
    def train(run: Training) -> None:
        for step, x, y in run.steps(6):
            # in steps 1 and 4 nobody has a gradient: no decay either
            run.net[0].requires_grad_(step % 3 != 1)
            run.loss(x, y).backward()
            run.optimizer.step()
            if step % 3 == 1:
                assert run.net[0].weight.grad is None

    as_in_one_process(
        here, train, lambda parameters: torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.1)
    )


@check(min_ranks=2)
def where_only_some_ranks_have_a_gradient_the_others_count_as_zeros(here: Here) -> None:
    net, optimizer = distributed(make=lambda p: torch.optim.SGD(p, lr=1.0))
    before = net[0].weight.detach().clone()
    (net[0].weight if here.rank == 0 else net[0].bias).sum().backward()
    # Something else in between does not wait for anybody's gradient.
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == here.size
    optimizer.step()
    torch.testing.assert_close(net[0].weight.detach(), before - 1 / here.size)
    assert net[2].weight.grad is None
    equal_everywhere(net)


@check(backend=("aot_eager",), tags=[COSTLY])
def with_a_compiled_model(here: Here, backend: str) -> None:
    net = model()
    compiled = torch.compile(net, backend=backend)

    def loss(_: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return mean_square(compiled, x, y)

    same(here, together(here, sgd, net=net, loss=loss), alone(here, sgd))


@check(min_ranks=2, how=("alone", "groups and predivide", "compression", "accumulation"))
def in_a_process_set(here: Here, how: str) -> None:
    options: dict[str, Any] = {
        "alone": {},
        "groups and predivide": {"groups": 2, "gradient_predivide_factor": 2.0},
        "compression": {"compression": hvd.Compression.bf16},
        "accumulation": {"backward_passes_per_step": 2},
    }[how]
    subset = hvd.add_process_set([0, here.size - 1] if here.size > 2 else [0])
    members = subset.ranks if subset.included() else [here.rank]

    def train(distributed: bool) -> torch.nn.Module:
        net = model()
        optimizer: Any = sgd(net.parameters())
        if distributed:
            optimizer = hvd.DistributedOptimizer(
                optimizer, net.named_parameters(), process_set=subset, **options
            )
        rows = torch.cat([torch.arange(4 * r, 4 * r + 4) for r in members])
        for x, y in batches(here, 5):
            optimizer.zero_grad()
            for _ in range(2 if how == "accumulation" else 1):
                mean_square(
                    net, *((part(here, x), part(here, y)) if distributed else (x[rows], y[rows]))
                ).backward()
            optimizer.step()
        return net

    loose = {"rtol": 0.05, "atol": 0.05} if how == "compression" else {"rtol": 1e-9, "atol": 1e-10}
    for mine, theirs in zip(train(True).parameters(), train(False).parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, **loose)
    hvd.remove_process_set(subset)


_SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda o: schedules.MultiplicativeLR(o, lambda epoch: 0.9),
    "StepLR": lambda o: schedules.StepLR(o, 1, 0.5),
    "MultiStepLR": lambda o: schedules.MultiStepLR(o, [1, 3], 0.5),
    "ConstantLR": lambda o: schedules.ConstantLR(o, 0.5, 9),
    "LinearLR": lambda o: schedules.LinearLR(o, 0.5, 1.0, 9),
    "ExponentialLR": lambda o: schedules.ExponentialLR(o, 0.7),
    "PolynomialLR": lambda o: schedules.PolynomialLR(o, 4),
    "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 4),
    "CosineAnnealingWarmRestarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 2),
    "CyclicLR": lambda o: schedules.CyclicLR(o, 0.01, 0.2, step_size_up=2),
    "OneCycleLR": lambda o: schedules.OneCycleLR(o, 0.2, total_steps=6),
    "ReduceLROnPlateau": lambda o: schedules.ReduceLROnPlateau(o, factor=0.5, patience=0),
    "SequentialLR": lambda o: schedules.SequentialLR(
        o, [schedules.ConstantLR(o, 0.5, 2), schedules.ExponentialLR(o, 0.9)], [2]
    ),
    "ChainedScheduler": lambda o: schedules.ChainedScheduler(
        [schedules.ConstantLR(o, 0.5, 2), schedules.ExponentialLR(o, 0.9)]
    ),
}  # fmt: skip


@check(schedule=tuple(_SCHEDULES))
def with_learning_rate_schedules_made_before_and_after(here: Here, schedule: str) -> None:
    def train(run: Training, before: bool) -> None:
        rates = _SCHEDULES[schedule](run.own if before else run.optimizer)
        for step, x, y in run.steps(5):
            run.loss(x, y).backward()
            run.optimizer.step()
            # it becomes worse and worse
            rates.step(*([float(step)] if schedule == "ReduceLROnPlateau" else []))
        assert run.optimizer.param_groups[0]["lr"] != 0.2, "the schedule has done nothing"

    with warnings.catch_warnings():
        # the schedule of the bare optimizer does not see our step()
        warnings.simplefilter("ignore", UserWarning)
        for before in (False, True):
            as_in_one_process(here, functools.partial(train, before=before))


@check()
def every_schedule_of_torch_is_among_them(here: Here) -> None:
    kinds = {name for name in schedules.__all__ if name not in ("LRScheduler",)}
    assert kinds == set(_SCHEDULES), kinds ^ set(_SCHEDULES)


@check(min_ranks=2)
def adasum_combines_the_steps_of_the_ranks(here: Here) -> None:
    from checks.here import adasum_tree

    net = model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.1), net.named_parameters(), op=hvd.Adasum
    )
    before = [p.detach().clone() for p in net.parameters()]
    x, y = batches(here, 1)[0]
    want = []
    for rank in here.ranks:
        other = model()
        mean_square(other, x[4 * rank : 4 * rank + 4], y[4 * rank : 4 * rank + 4]).backward()
        want.append([-0.1 * p.grad for p in other.parameters()])
    mean_square(net, part(here, x), part(here, y)).backward()
    optimizer.synchronize()
    optimizer.step()
    for i, (parameter, start) in enumerate(zip(net.parameters(), before, strict=True)):
        combined = torch.from_numpy(adasum_tree([w[i].numpy().ravel() for w in want])).reshape(
            start.shape
        )
        torch.testing.assert_close(parameter.detach(), start + combined, rtol=1e-8, atol=1e-10)
    equal_everywhere(net)


@check()
def with_gradients_in_channels_last_order(here: Here) -> None:
    def make() -> torch.nn.Module:
        torch.manual_seed(4)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(2, 3, 3), torch.nn.Flatten(), torch.nn.Linear(3, 3)
        ).double()
        return net.to(memory_format=torch.channels_last)

    def loss(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        image = x.repeat(1, 3).reshape(-1, 2, 3, 3).to(memory_format=torch.channels_last)
        return torch.nn.functional.mse_loss(net(image), y)

    got = together(here, sgd, net=make(), loss=loss)
    same(here, got, alone(here, sgd, net=make(), loss=loss))
    assert not got[0].weight.grad.is_contiguous(), (
        "this was to be about gradients that are not contiguous"
    )
