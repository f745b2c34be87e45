"""DistributedOptimizer in a program's life: several of them, saved, copied, with workers, in any
order."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import BY_CTYPES, COSTLY, check, needs
from checks.here import SUM, Here, raises
from checks.torch_training import (
    ROWS,
    Training,
    alone,
    as_in_one_process,
    batches,
    distributed,
    equal_everywhere,
    mean_square,
    model,
    part,
    run_steps,
    same,
    sgd,
)


@check()
def it_is_an_optimizer_of_the_users_class(here: Here) -> None:
    net = model()
    own = torch.optim.Adam(net.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(own)
    assert isinstance(optimizer, torch.optim.Adam) and type(optimizer).__name__ == "Adam"
    assert type(optimizer).__module__ == "hvdlite.torch.optimizer"
    assert optimizer.param_groups is own.param_groups and optimizer.state is own.state
    names = sorted(optimizer._parameter_names.values())
    assert names == [f"allreduce.noname.0.{i}" for i in range(4)]
    grouped = torch.optim.SGD(
        [{"params": net[0].parameters()}, {"params": net[2].parameters(), "lr": 0.2}], lr=0.1
    )
    names = sorted(hvd.DistributedOptimizer(grouped)._parameter_names.values())
    assert names == [f"allreduce.noname.{g}.{i}" for g in range(2) for i in range(2)]
    own.param_groups[0]["lr"] = 0.5
    assert optimizer.param_groups[0]["lr"] == 0.5


@check(min_ranks=2)
def members_of_a_group_do_not_leave_alone(here: Here) -> None:
    net, optimizer = distributed(groups=1)
    net(torch.ones(2, 6).double()).sum().backward()
    reducer = optimizer._hvd.reducer
    assert not reducer._direct.handles and len(reducer._started) == 1
    optimizer.step()
    equal_everywhere(net)


class Branches(torch.nn.Module):
    """Rank 0 has no gradient of one branch in some steps, and another order in others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Linear(6, 3).double()
        self.second = torch.nn.Linear(6, 3).double()
        self.uses: tuple[str, ...] = ("first", "second")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum((getattr(self, each)(x) for each in self.uses), torch.zeros(()).double())


def _counted(*names: str) -> list[float]:
    counters = hvd.metrics()
    return [counters[name] for name in names]


@check(min_ranks=2)
def small_gradients_are_one_request(here: Here) -> None:
    needs(BY_CTYPES not in here.environment, "the native module: without it each travels alone")
    net, optimizer = distributed()
    run_steps(here, net, optimizer, 2)
    names = ("lists", "lists_taken_apart", "operations")
    before = _counted(*names)
    run_steps(here, net, optimizer, 3)
    lists, apart, operations = (b - a for a, b in zip(before, _counted(*names), strict=True))
    # Four gradients, and which ranks have them.
    assert (lists, apart, operations) == (3, 0, 3 * 5), (lists, apart, operations)


class _Thinned(torch.autograd.Function):
    """The sum of a matrix. Its gradient is dense at first, and later it is sparse."""

    thin = False

    @staticmethod
    def forward(ctx: Any, matrix: torch.Tensor) -> torch.Tensor:
        return matrix.sum()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        ones = torch.ones(3, 3, dtype=torch.float64) * torch.arange(3) * gradient
        return ones.to_sparse(1) if _Thinned.thin else ones


@check(min_ranks=2)
def a_gradient_of_a_list_need_not_stay_as_it_was(here: Here) -> None:
    matrix = torch.nn.Parameter(torch.zeros(3, 3, dtype=torch.float64))
    row = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    own = torch.optim.SGD([matrix, row], lr=0.1)
    optimizer = hvd.DistributedOptimizer(own, [("matrix", matrix), ("row", row)], op=hvd.Sum)
    for step in range(6):
        _Thinned.thin = step >= 3
        optimizer.zero_grad()
        (_Thinned.apply(matrix) + row.sum() * (here.rank + 1)).backward()
        optimizer.synchronize()
        expected = torch.arange(3, dtype=torch.float64).expand(3, 3) * here.size
        assert matrix.grad.is_sparse == _Thinned.thin
        assert torch.equal(matrix.grad.to_dense(), expected), matrix.grad
        assert torch.equal(row.grad, torch.full((3,), here.size * (here.size + 1) / 2).double())
        with optimizer.skip_synchronize():
            optimizer.step()


@check(min_ranks=2)
def ranks_may_lack_gradients_or_have_them_in_another_order(here: Here) -> None:
    def train(net: Branches, optimizer: Any, mine: list[int]) -> None:
        for step, (x, y) in enumerate(batches(here, 12)):
            optimizer.zero_grad()
            for rank in mine:
                odd = rank == 0 and step >= 4
                net.uses = (
                    (("first",), ("second", "first"), ("first", "second"))[step % 3]
                    if odd
                    else ("first", "second")
                )
                rows = slice(rank * ROWS, (rank + 1) * ROWS)
                (mean_square(net, x[rows], y[rows]) / len(mine)).backward()
            optimizer.step()

    net, optimizer = distributed(net=Branches())
    train(net, optimizer, [here.rank])
    alone = Branches()
    train(alone, sgd(alone.parameters()), list(range(here.size)))
    same(here, net, alone)


@check(min_ranks=2)
def lists_that_other_ranks_do_not_have_are_given_up(here: Here) -> None:
    needs(BY_CTYPES not in here.environment, "the native module: without it each travels alone")
    net, optimizer = distributed(net=Branches())
    net.uses = ("first", "second") if here.rank else ("second", "first")
    grown = []
    for _ in range(14):
        before = _counted("lists", "lists_taken_apart")
        run_steps(here, net, optimizer, 1)
        now = _counted("lists", "lists_taken_apart")
        grown.append(tuple(b - a for a, b in zip(before, now, strict=True)))
    assert grown == [(0, 0)] + [(0, 1)] * 8 + [(0, 0)] * 5, grown
    equal_everywhere(net)


@check()
def step_hooks_of_torch_run_once(here: Here) -> None:
    net = model()
    own = sgd(net.parameters())
    calls: list[str] = []
    own.register_step_pre_hook(lambda *a: calls.append("pre"))
    own.step()
    needs(calls, "a torch that runs hooks of steps after a torch.compile, too (2.1 does not)")
    calls.clear()
    optimizer = hvd.DistributedOptimizer(own, net.named_parameters())
    optimizer.register_step_post_hook(lambda *a: calls.append("post"))
    run_steps(here, net, optimizer, 2)
    assert calls == ["pre", "post"] * 2, calls


@check(min_ranks=2)
def two_optimizers_may_have_gradients_of_the_same_name_under_way(here: Here) -> None:
    nets = [model(1), model(2)]
    optimizers = [
        hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters()) for net in nets
    ]
    for x, y in batches(here, 4):
        for optimizer in optimizers:
            optimizer.zero_grad()
        for i in (0, 1) if here.rank % 2 else (1, 0):  # not even in the same order
            mean_square(nets[i], part(here, x), part(here, y)).backward()
        for optimizer in optimizers:
            optimizer.step()
    for seed, net in enumerate(nets, 1):
        same(here, net, alone(here, sgd, steps=4, net=model(seed)))


@check()
def one_that_is_made_anew_for_the_same_model_takes_over(here: Here) -> None:
    net = model()
    first = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())
    run_steps(here, net, first)
    second = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())
    run_steps(here, net, second)
    equal_everywhere(net)
    del first, second
    run_steps(here, net, sgd(net.parameters()))  # nobody reduces any more


@check()
def parameters_added_later_are_reduced_too(here: Here) -> None:
    def train(distributed: bool) -> torch.nn.Module:
        net = model()
        run = Training(here, distributed, sgd, net[2])
        run.net = net
        for step, x, y in run.steps(4):
            if step == 2:
                run.optimizer.add_param_group({"params": list(net[0].parameters()), "lr": 0.1})
            run.loss(x, y).backward()
            run.optimizer.step()
            net.zero_grad()
        return net

    same(here, train(True), train(False))


@check(passes=(1, 2))
def layers_that_thaw_later_are_reduced_too(here: Here, passes: int) -> None:
    def frozen() -> torch.nn.Module:
        net = model()
        net[0].requires_grad_(False)
        return net

    def train(run: Training) -> None:
        for step, x, y in run.steps(5):
            run.net[0].requires_grad_(step >= 2)
            for _ in range(passes):
                run.loss(x, y).backward()
            run.optimizer.step()

    as_in_one_process(here, train, net=frozen, groups=2, backward_passes_per_step=passes)


@check(way=("pickle", "torch.save", "deepcopy"))
def a_copy_goes_on_where_the_original_stood(here: Here, way: str) -> None:
    net, optimizer = distributed(groups=2)
    run_steps(here, net, optimizer)
    if way == "pickle":
        net2, optimizer2 = pickle.loads(pickle.dumps((net, optimizer)))
    elif way == "torch.save":
        buffer = io.BytesIO()
        torch.save((net, optimizer), buffer)
        buffer.seek(0)
        net2, optimizer2 = torch.load(buffer, weights_only=False)
    else:
        net2, optimizer2 = copy.deepcopy((net, optimizer))
    assert type(optimizer2).__name__ == "SGD" and optimizer2 is not optimizer
    assert optimizer2.param_groups[0]["params"][0] is net2[0].weight
    run_steps(here, net, optimizer)
    run_steps(here, net2, optimizer2)
    same(here, net2, net, rtol=0, atol=0)


@check()
def a_state_dict_fits_both_ways(here: Here) -> None:
    net, optimizer = distributed(make=lambda p: torch.optim.Adam(p))
    run_steps(here, net, optimizer)
    state = copy.deepcopy(optimizer.state_dict())
    plain = torch.optim.Adam(model().parameters())
    plain.load_state_dict(state)
    again = hvd.DistributedOptimizer(torch.optim.Adam(net.parameters()), net.named_parameters())
    again.load_state_dict(copy.deepcopy(plain.state_dict()))
    assert repr(again.state_dict()) == repr(state) and set(state) == {"state", "param_groups"}
    run_steps(here, net, again)
    equal_everywhere(net)


@check(loads=("the wrapper", "the wrapped"))
def what_was_made_on_the_wrapped_optimizer_goes_on_after_a_checkpoint_is_loaded(
    here: Here, loads: str
) -> None:
    hook = getattr(torch.optim.Optimizer, "register_load_state_dict_post_hook", None)
    needs(
        hook or loads == "the wrapper",
        "a torch that tells when an optimizer has loaded a checkpoint",
    )

    def make(parameters: Any) -> Any:
        first, *rest = parameters
        return torch.optim.SGD(
            [{"params": [first]}, {"params": rest, "lr": 0.1}], lr=0.2, momentum=0.9
        )

    def train(run: Training) -> None:
        rates = torch.optim.lr_scheduler.ExponentialLR(run.own, 0.5)
        for step, x, y in run.steps(6):
            if step == 3:
                checkpoint = copy.deepcopy(run.optimizer.state_dict())
                checkpoint["param_groups"][0]["momentum"] = 0.5
                (run.own if loads == "the wrapped" else run.optimizer).load_state_dict(checkpoint)
            run.loss(x, y).backward()
            run.optimizer.step()
            rates.step()
            assert [group["lr"] for group in run.optimizer.param_groups] == rates.get_last_lr()
        assert (
            run.optimizer.param_groups is run.own.param_groups
            and run.optimizer.state is run.own.state
        )

    with warnings.catch_warnings():
        # the schedule of the bare optimizer does not see our step()
        warnings.simplefilter("ignore", UserWarning)
        as_in_one_process(here, train, make)


@check(seconds=30, how=("alone", "groups", "accumulation", "compression"))
def two_hundred_gradients_in_another_order_on_every_rank(here: Here, how: str) -> None:
    options: dict[str, Any] = {
        "alone": {},
        "groups": {"groups": 23},
        "accumulation": {"backward_passes_per_step": 2},
        "compression": {"compression": hvd.Compression.fp16},
    }[how]
    passes = options.get("backward_passes_per_step", 1)
    torch.manual_seed(0)
    net = torch.nn.ParameterList(
        [torch.nn.Parameter(torch.full((1 + i * 37 % 400,), 0.0)) for i in range(200)]
    )
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=1.0), net.named_parameters(), **options
    )
    for step in range(1, 4):
        optimizer.zero_grad()
        for each in range(passes):
            # A chain: gradients come in the reverse of this rank's own order.
            total = torch.zeros(())
            for i in here.rng(here.rank, step, each).permutation(200):
                total = total + net[int(i)].sum() * float(i + here.rank) / passes
            total.backward()
        optimizer.step()
        average = sum(here.ranks) / here.size
        for i, parameter in enumerate(net):
            torch.testing.assert_close(
                parameter.detach(), torch.full_like(parameter, -step * (i + average))
            )


@check(seconds=60, start=("fork", "spawn"), tags=[COSTLY])
def workers_of_a_data_loader_do_no_harm(here: Here, start: str) -> None:
    net, optimizer = distributed()
    x, y = batches(here, 1)[0]
    data = torch.utils.data.TensorDataset(part(here, x), part(here, y))
    sampler = torch.utils.data.DistributedSampler(data, num_replicas=1, rank=0)
    loader = torch.utils.data.DataLoader(
        data,
        batch_size=2,
        num_workers=2 if start == "fork" else 1,
        multiprocessing_context=start,
        sampler=sampler,
    )
    for _ in range(2 if start == "fork" else 1):
        for a, b in loader:
            optimizer.zero_grad()
            mean_square(net, a, b).backward()
            optimizer.step()
    equal_everywhere(net)
    assert hvd.allreduce(torch.ones(1), op=SUM).item() == here.size


@check()
def hooks_work_without_torchs_newer_kind(here: Here) -> None:
    from hvdlite.torch import gradients

    def old(parameter: torch.Tensor, hook: Any) -> Any:
        return gradients._ByNode(parameter, hook)

    newer, gradients._register = gradients._register, old
    try:
        net, optimizer = distributed()
        run_steps(here, net, optimizer, 5)
    finally:
        gradients._register = newer
    same(here, net, alone(here, sgd))
    if here.size > 1:
        net[0].weight.sum().backward()
        with raises(AssertionError, "zero_grad"):
            optimizer.zero_grad()
        optimizer.synchronize()
