"""Training with DistributedOptimizer gives the weights of a single process on the global batch."""

from __future__ import annotations

from typing import Any

import torch

import hvdlite.torch as hvd
from checks import check
from checks.here import Here
from checks.torch_functions import OPTIMIZERS
from checks.torch_training import alone, batches, equal_everywhere, mean_square, model, part, same, sgd, together


@check(optimizer=OPTIMIZERS)
def with_each_optimizer(here: Here, optimizer: str) -> None:
    kind = getattr(torch.optim, optimizer)
    extra: dict[str, Any] = {"momentum": 0.9, "nesterov": True} if optimizer == "SGD" else {}

    def make(parameters: Any) -> torch.optim.Optimizer:
        return kind(parameters, lr=0.05, **extra)

    same(here, together(here, make), alone(here, make))


@check(how=("groups=1", "groups=2", "groups=99", "lists", "num_groups", "predivide", "predivide in groups"))
def with_options_that_change_the_way_but_not_the_result(here: Here, how: str) -> None:
    import warnings

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
            here, sgd, net=model(dtype=torch.float32), compression=getattr(hvd.Compression, compression), groups=groups
        )
        same(here, got, want, rtol=0.05, atol=0.02)


@check()
def with_accumulation_whose_gradients_are_added_up(here: Here) -> None:
    def train(distributed: bool) -> torch.nn.Module:
        net = model()
        optimizer: Any = sgd(net.parameters())
        if distributed:
            optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters(), backward_passes_per_step=3)
        micro = batches(here, 7)
        for first in (0, 3, 6):
            optimizer.zero_grad()
            for x, y in micro[first : first + 3]:  # the last step comes after one pass
                mean_square(net, *((part(here, x), part(here, y)) if distributed else (x, y))).backward()
            optimizer.step()
        if distributed:
            optimizer.set_backward_passes_per_step(1)
            optimizer.zero_grad()
        return net

    same(here, train(True), train(False))


@check()
def with_clipping_of_the_reduced_gradient(here: Here) -> None:
    def train(distributed: bool) -> torch.nn.Module:
        net = model()
        optimizer: Any = sgd(net.parameters())
        if distributed:
            optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
        for x, y in batches(here, 5):
            optimizer.zero_grad()
            mean_square(net, *((part(here, x), part(here, y)) if distributed else (x, y))).backward()
            if not distributed:
                torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
                optimizer.step()
                continue
            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            with optimizer.skip_synchronize():
                optimizer.step()
        return net

    same(here, train(True), train(False))


@check()
def with_a_closure(here: Here) -> None:
    net = model()
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())
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
            torch.optim.SparseAdam(net.words.parameters(), lr=0.1), torch.optim.SGD(net.out.parameters(), lr=0.1)
        ]  # fmt: skip
        if distributed:
            optimizers = [hvd.DistributedOptimizer(o, sparse_as_dense=sparse_as_dense) for o in optimizers]
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
    def train(distributed: bool) -> torch.nn.Module:
        net = model()
        optimizer: Any = torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.1)
        if distributed:
            optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
        for step, (x, y) in enumerate(batches(here, 6)):
            optimizer.zero_grad()
            net[0].requires_grad_(step % 3 != 1)  # in steps 1 and 4 nobody has a gradient: no decay either
            mean_square(net, *((part(here, x), part(here, y)) if distributed else (x, y))).backward()
            optimizer.step()
            if step % 3 == 1:
                assert net[0].weight.grad is None
        return net

    same(here, train(True), train(False))


@check(min_ranks=2)
def where_only_some_ranks_have_a_gradient_the_others_count_as_zeros(here: Here) -> None:
    net = model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=1.0), net.named_parameters())
    before = net[0].weight.detach().clone()
    (net[0].weight if here.rank == 0 else net[0].bias).sum().backward()
    # Something else in between does not wait for anybody's gradient.
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == here.size
    optimizer.step()
    torch.testing.assert_close(net[0].weight.detach(), before - 1 / here.size)
    assert net[2].weight.grad is None
    equal_everywhere(net)


@check(backend=("aot_eager",))
def with_a_compiled_model(here: Here, backend: str) -> None:
    net = model()
    compiled = torch.compile(net, backend=backend)

    def loss(_: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return mean_square(compiled, x, y)

    same(here, together(here, sgd, net=net, loss=loss), alone(here, sgd))


@check(min_ranks=2)
def in_a_process_set(here: Here) -> None:
    subset = hvd.add_process_set([0, here.size - 1] if here.size > 2 else [0])
    net = model()
    together(here, sgd, net=net, process_set=subset)
    others = model()
    optimizer = sgd(others.parameters())
    members = subset.ranks if here.rank in subset.ranks else [here.rank]
    for x, y in batches(here, 5):
        optimizer.zero_grad()
        rows = torch.cat([torch.arange(4 * r, 4 * r + 4) for r in members])
        mean_square(others, x[rows], y[rows]).backward()
        optimizer.step()
    for mine, theirs in zip(net.parameters(), others.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10)
    hvd.remove_process_set(subset)


@check()
def with_learning_rate_schedules_made_before_and_after(here: Here) -> None:
    import warnings

    def train(distributed: bool, before: bool) -> torch.nn.Module:
        net = model()
        optimizer: Any = sgd(net.parameters())
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if before else None
        if distributed:
            optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
        schedule = schedule or torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        for x, y in batches(here, 4):
            optimizer.zero_grad()
            mean_square(net, *((part(here, x), part(here, y)) if distributed else (x, y))).backward()
            optimizer.step()
            schedule.step()
        return net

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the schedule of the bare optimizer does not see our step()
        for before in (False, True):
            same(here, train(True, before), train(False, before))


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
        combined = torch.from_numpy(adasum_tree([w[i].numpy().ravel() for w in want])).reshape(start.shape)
        torch.testing.assert_close(parameter.detach(), start + combined, rtol=1e-8, atol=1e-10)
    equal_everywhere(net)


@check()
def with_gradients_in_channels_last_order(here: Here) -> None:
    def make() -> torch.nn.Module:
        torch.manual_seed(4)
        net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.Flatten(), torch.nn.Linear(3, 3)).double()
        return net.to(memory_format=torch.channels_last)

    def loss(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        image = x.repeat(1, 3).reshape(-1, 2, 3, 3).to(memory_format=torch.channels_last)
        return torch.nn.functional.mse_loss(net(image), y)

    got = together(here, sgd, net=make(), loss=loss)
    same(here, got, alone(here, sgd, net=make(), loss=loss))
    assert not got[0].weight.grad.is_contiguous(), "this was to be about gradients that are not contiguous"
