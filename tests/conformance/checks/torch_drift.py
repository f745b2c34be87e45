"""The drift guard of DistributedOptimizer: what it finds, in which words, and what it must not take
for drift. The rest of the suite trains under it as well (test_torch.py)."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import check
from checks.drifting import drifting, odd_one, told_once
from checks.here import Here, raises
from checks.torch_training import backward, distributed, equal_everywhere, model, sgd

WITHIN = 6  # HVDLITE_DRIFT_STEPS

Change = Callable[[torch.nn.Module], None]


def guarded(mode: str = "error", steps: int = WITHIN) -> contextlib.AbstractContextManager[None]:
    return drifting(steps, mode)


def steps(here: Here, net: Any, optimizer: Any, number: int) -> None:
    for _ in range(number):
        optimizer.zero_grad()
        backward(here, net)
        optimizer.step()


def flip(parameter: torch.Tensor, element: int, bit: int) -> None:
    with torch.no_grad():
        parameter.view(-1).view(torch.int64)[element] ^= 1 << bit if bit < 63 else -(1 << 63)


@check(min_ranks=2, bit=(0, 51, 63))
def a_flipped_bit_is_found_within_the_steps(here: Here, bit: int) -> None:
    odd = here.size - 1
    for number, (name, _) in enumerate(model().named_parameters()):
        with guarded():
            net, optimizer = distributed()
        steps(here, net, optimizer, 3 + number)
        if here.rank == odd:
            # Steps of a learning rate of 0 leave even the lowest bit as it is.
            flip(dict(net.named_parameters())[name], 1, bit)
        for group in optimizer.param_groups:
            group["lr"] = 0.0
        with raises(hvd.MismatchError, f"'{name}'", *odd_one(here, odd), "HVDLITE_DRIFT") as caught:
            steps(here, net, optimizer, WITHIN)
        here.same_on_all_ranks(str(caught[0]))


@check(min_ranks=2)
def numbers_that_are_finite_on_no_rank_are_told_with_the_first(here: Here) -> None:
    """A NaN in a weight of one rank is in all weights of all ranks one step later."""
    odd = here.size - 1
    for name in ("0.weight", "2.bias"):
        with guarded():
            net, optimizer = distributed()
        steps(here, net, optimizer, 4)
        parameter = dict(net.named_parameters())[name]
        if here.rank == odd:
            with torch.no_grad():
                parameter.view(-1)[0] = float("nan")
        told_once(
            here,
            lambda net=net, optimizer=optimizer: steps(here, net, optimizer, 5 * WITHIN),
            "(and 3 more) is not finite on all ranks since step 5, "
            f"first on rank {odd} (found in step",
            "HVDLITE_NAN_WATCH=1",
        )


@check(min_ranks=2)
def a_forgotten_broadcast_is_found(here: Here) -> None:
    with guarded():
        net, optimizer = distributed(net=model(seed=1 + (here.rank == 0)))
    with raises(hvd.MismatchError, "'0.weight' (and 3 more)", *odd_one(here, 0), "broadcast"):
        steps(here, net, optimizer, WITHIN + 1)


@check(min_ranks=2)
def a_rank_that_skips_a_step_is_found(here: Here) -> None:
    with guarded():
        net, optimizer = distributed()
    steps(here, net, optimizer, 2)
    optimizer.zero_grad()
    backward(here, net)
    optimizer.synchronize()
    if here.rank != 1:
        with optimizer.skip_synchronize():
            optimizer.step()
    with raises(hvd.MismatchError, *odd_one(here, 1), "skipped a step"):
        steps(here, net, optimizer, WITHIN + 1)


@check(min_ranks=2)
def an_update_that_is_not_the_same_on_all_ranks_is_found(here: Here) -> None:
    class Noisy(torch.optim.SGD):
        def step(self, closure=None):  # type: ignore[no-untyped-def, override]
            super().step()
            own = torch.Generator().manual_seed(here.rank)
            with torch.no_grad():
                noise = torch.randn(1, generator=own)
                self.param_groups[0]["params"][2].add_(noise, alpha=1e-6)

    with guarded():
        net, optimizer = distributed(lambda parameters: Noisy(parameters, lr=0.1))
    with raises(hvd.MismatchError, "Parameter "):
        steps(here, net, optimizer, WITHIN + 1)


@check(min_ranks=2)
def a_warning_comes_once_from_one_rank_and_again_after_the_ranks_were_equal(here: Here) -> None:
    with guarded("warn"):
        net, optimizer = distributed()

    def told() -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            steps(here, net, optimizer, 4 * WITHIN)
        return [str(each.message) for each in caught]

    assert told() == []
    for _ in range(2):
        if here.rank == 1:
            flip(net[2].weight, 0, 50)
        said = told()
        assert len(said) == (here.rank == 0) and all("2.weight" in each for each in said), said
        assert told() == []
        hvd.broadcast_parameters(net.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert told() == []


@check(min_ranks=2)
def it_can_be_turned_off(here: Here) -> None:
    with guarded("off"):
        net, optimizer = distributed(net=model(seed=1 + here.rank))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps(here, net, optimizer, 3 * WITHIN)
    assert optimizer._hvd.guard.compared == 0


@check(min_ranks=2)
def parameters_that_may_differ_are_left_out(here: Here) -> None:
    with guarded():
        net, optimizer = distributed()
    optimizer.may_differ([net[0].bias])
    with torch.no_grad():
        net[0].bias += here.rank
    steps(here, net, optimizer, 3 * WITHIN)
    assert optimizer._hvd.guard.compared > WITHIN
    if here.rank == 0:
        flip(net[2].bias, 0, 50)
    with raises(hvd.MismatchError, "'2.bias'"):
        steps(here, net, optimizer, WITHIN)


@check(min_ranks=2)
def parameters_that_may_differ_do_so_from_the_first_step_on(here: Here) -> None:
    with drifting(WITHIN, first="error"):
        net, optimizer = distributed()
        optimizer.may_differ([net[0].bias])
        with torch.no_grad():
            net[0].bias += here.rank
        steps(here, net, optimizer, 3 * WITHIN)
        assert optimizer._hvd.guard.compared > WITHIN
        net, optimizer = distributed()
        if here.rank == 0:
            flip(net[0].bias, 0, 50)
        with raises(hvd.MismatchError, "'0.bias'", "at the first step"):
            steps(here, net, optimizer, 1)


@check(min_ranks=2)
def the_order_in_memory_and_the_bits_of_nan_are_no_difference(here: Here) -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.LazyLinear(2))
    torch.manual_seed(3)
    image = torch.randn(2, 3, 5, 5)
    net(image)
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    if here.rank == 0:
        net = net.to(memory_format=torch.channels_last)
        assert not net[0].weight.is_contiguous()
    with guarded():
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(net.parameters(), lr=0.0), net.named_parameters()
        )
    with torch.no_grad():
        bits = 0x7FC00000 if here.rank else 0x7FC00001
        net[2].bias.view(torch.int32)[0] = bits
    for _ in range(4 * WITHIN):
        optimizer.zero_grad()
        net(image)[:, 1].sum().backward()
        optimizer.step()
    assert optimizer._hvd.guard.compared > 0


@check(min_ranks=2)
def parameters_of_every_kind_are_compared(here: Here) -> None:
    """16-bit, without dimensions, not contiguous, and added later."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(4)
            self.short = torch.nn.Parameter(torch.randn(5).bfloat16())
            self.one = torch.nn.Parameter(torch.tensor(2.0))
            self.turned = torch.nn.Parameter(torch.randn(3, 4).t())
            self.late = torch.nn.Parameter(torch.randn(6))

        def forward(self) -> torch.Tensor:
            return sum(p.float().sum() for p in self.parameters())  # type: ignore[return-value]

    for changed in ("short", "one", "turned", "late"):
        net = Net()
        early = [net.short, net.one, net.turned]
        with guarded():
            optimizer = hvd.DistributedOptimizer(
                torch.optim.SGD(early, lr=0.0), list(net.named_parameters())
            )
        optimizer.add_param_group({"params": [net.late]})
        for step in range(2 * WITHIN):
            if step == WITHIN and here.rank == 1:
                with torch.no_grad():
                    getattr(net, changed).view(-1).add_(1) if changed != "turned" else net.turned[
                        0, 1
                    ].add_(1)
            optimizer.zero_grad()
            net().backward()
            if step < WITHIN:
                optimizer.step()
            else:
                try:
                    optimizer.step()
                except hvd.MismatchError as error:
                    assert f"'{changed}'" in str(error), error
                    break
        else:
            raise AssertionError(f"{changed} was not compared")


@check(min_ranks=2)
def adasum_keeps_ranks_equal_and_is_watched(here: Here) -> None:
    with guarded():
        net, optimizer = distributed(op=hvd.Adasum)
    steps(here, net, optimizer, 2 * WITHIN)
    equal_everywhere(net)
    assert optimizer._hvd.guard.compared > 0
    if here.rank == 1:
        flip(net[0].bias, 0, 50)
    with raises(hvd.MismatchError, "'0.bias'"):
        steps(here, net, optimizer, WITHIN)


@check(min_ranks=2)
def a_rank_that_has_joined_is_not_compared(here: Here) -> None:
    with guarded(steps=3):
        net, optimizer = distributed()
    for _ in range(3):  # epochs
        steps(here, net, optimizer, 4 if here.rank == 0 else 9)
        hvd.join()
        hvd.broadcast_parameters(net.state_dict(), root_rank=here.size - 1)
        hvd.broadcast_optimizer_state(optimizer, root_rank=here.size - 1)
    assert optimizer._hvd.guard.compared > 5


@check(min_ranks=3)
def each_process_set_is_compared_by_itself(here: Here) -> None:
    mine = hvd.add_process_set([0, 1])
    other = hvd.add_process_set(range(2, here.size))
    chosen = mine if here.rank < 2 else other
    with guarded():
        net = model(seed=1 + (here.rank < 2))
        optimizer = hvd.DistributedOptimizer(
            sgd(net.parameters()), net.named_parameters(), process_set=chosen
        )
    steps(here, net, optimizer, 2 * WITHIN)
    assert optimizer._hvd.guard.compared > 0
    if here.rank == 1:
        flip(net[0].bias, 0, 50)
    if here.rank < 2:
        with raises(hvd.MismatchError, "'0.bias' differs between rank 0 and rank 1"):
            steps(here, net, optimizer, WITHIN)
    else:
        steps(here, net, optimizer, WITHIN)
    hvd.barrier()
    hvd.remove_process_set(mine)
    hvd.remove_process_set(other)
