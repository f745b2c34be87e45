"""Sufficient factors: a linear layer sends the factors of its gradient, and the gradient is that of
an allreduce."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import check, needs
from checks.here import Here, raises
from checks.torch_compiled import needs_newer_compiler
from checks.torch_drift import guarded
from checks.torch_training import equal_everywhere

INPUTS = 48


def wide(dtype: torch.dtype = torch.float64, seed: int = 1) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(INPUTS, 40), torch.nn.ReLU(inplace=True), torch.nn.Linear(40, 3, bias=False)
    ).to(dtype)


def wrapped(net: Any, factors: Any, **how: Any) -> Any:
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    return hvd.DistributedOptimizer(sgd, net.named_parameters(), sufficient_factors=factors, **how)


def data(here: Here, step: int, rows: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + here.rank)
    return torch.randn(rows, *shape, INPUTS, generator=generator, dtype=torch.float64)


def loss(net: Any, x: torch.Tensor) -> torch.Tensor:
    return net(x.to(net[0].weight.dtype)).square().mean()


def train(here: Here, net: Any, optimizer: Any, steps: int = 4, rows: Any = lambda step: 4) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        loss(net, data(here, step, rows(step))).backward()
        optimizer.step()


def same_as_an_allreduce(here: Here, gathered: int, rows: Any = lambda step: 4, **how: Any) -> Any:
    """Trains with factors and without. `gathered`: how many gradients came as factors."""
    net, plain = wide(), wide()
    optimizer = wrapped(net, True, **how)
    train(here, net, optimizer, rows=rows)
    train(here, plain, wrapped(plain, None, **how), rows=rows)
    for mine, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-13)
    equal_everywhere(net)
    if here.size > 1:
        assert optimizer._hvd.reducer.gathered == gathered
    return optimizer


# ---- the gradient is that of an allreduce


@check(op=("Average", "Sum"))
def gradients_are_those_of_an_allreduce(here: Here, op: str) -> None:
    """The first step shows the layers; two of them send factors in the other three."""
    optimizer = same_as_an_allreduce(here, 6, op=getattr(hvd, op))
    if here.size > 1:
        assert optimizer.factored_parameters == ["0.weight", "2.weight"]


@check()
def ranks_may_have_batches_of_different_sizes(here: Here) -> None:
    """An average is that of the ranks' gradients, as always; some ranks have no row."""
    same_as_an_allreduce(here, 6, rows=lambda step: 2 + (3 * here.rank + step) % 5)
    same_as_an_allreduce(here, 6, gradient_predivide_factor=2.0)


@check()
def inputs_may_have_more_dimensions(here: Here) -> None:
    nets = [wide(), wide()]
    for net, factors in zip(nets, (True, None), strict=True):
        optimizer = wrapped(net, factors)
        for step in range(3):
            optimizer.zero_grad()
            loss(net, data(here, step, 3, 5)).backward()
            optimizer.step()
    for mine, theirs in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-13)


@check(min_ranks=2)
def a_rank_that_does_not_run_a_layer_sends_no_rows(here: Here) -> None:
    nets = [wide(), wide()]
    for net, factors in zip(nets, ("auto", None), strict=True):
        head = net[2]
        with guarded("off"):
            optimizer = wrapped(net, factors)
        for step in range(4):
            optimizer.zero_grad()
            hidden = net[1](net[0](data(here, step, 4)))
            skips = step > 0 and here.rank == step % 2
            (hidden if skips else head(hidden)).square().mean().backward()
            optimizer.step()
    for mine, theirs in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-13)
    equal_everywhere(nets[0])


@check(min_ranks=2)
def a_rank_without_data_joins(here: Here) -> None:
    nets = [wide(), wide()]
    for net, factors in zip(nets, (True, None), strict=True):
        with guarded("off"):
            optimizer = wrapped(net, factors)
        train(here, net, optimizer, steps=5 if here.rank == 0 else 2)
        hvd.join()
    if here.rank == 0:
        for mine, theirs in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-13)


@check(min_ranks=2)
def zeroed_gradients_keep_their_memory(here: Here) -> None:
    net = wide()
    optimizer = wrapped(net, True)
    train(here, net, optimizer, steps=2)
    gradient = net[0].weight.grad
    address = gradient.data_ptr()
    optimizer.zero_grad(set_to_none=False)
    loss(net, data(here, 3, 4)).backward()
    optimizer.synchronize()
    assert net[0].weight.grad.data_ptr() == address and gradient.any()
    before = gradient.clone()
    with optimizer.skip_synchronize():
        optimizer.step()
    optimizer.synchronize()  # a second time: an average of averages
    torch.testing.assert_close(net[0].weight.grad, before, rtol=1e-14, atol=0)


@check(min_ranks=2)
def autocast_sends_narrow_factors(here: Here) -> None:
    nets = [wide(torch.float32), wide(torch.float32)]
    for net, factors in zip(nets, (True, None), strict=True):
        optimizer = wrapped(net, factors)
        for step in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                output = net(data(here, step, 4).float())
            output.float().square().mean().backward()
            optimizer.step()
        if factors:
            assert set(optimizer._hvd.reducer._kinds.values()) == {torch.bfloat16}
    assert nets[0][0].weight.grad.dtype == torch.float32
    for mine, theirs in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-3)
    equal_everywhere(nets[0])


# ---- which layers


@check(min_ranks=2)
def auto_takes_the_layers_that_become_smaller(here: Here) -> None:
    net = wide()
    optimizer = wrapped(net, "auto")
    assert optimizer.factored_parameters == []
    train(here, net, optimizer, steps=2, rows=lambda step: 16 // here.size)
    # 16 * (48 + 40) numbers against 2 * 48 * 40, and 16 * (40 + 3) against 2 * 40 * 3.
    assert optimizer.factored_parameters == ["0.weight"]
    assert optimizer._hvd.reducer.gathered == 1


@check(min_ranks=2)
def fewer_bytes_are_on_the_wire(here: Here) -> None:
    def sent(factors: Any) -> int:
        net = torch.nn.Linear(512, 256, bias=False)
        with guarded("off"):
            optimizer = hvd.DistributedOptimizer(
                torch.optim.SGD(net.parameters(), lr=0.1), sufficient_factors=factors
            )
        found = 0
        for _ in range(3):
            before = hvd.metrics()["bytes"]
            optimizer.zero_grad()
            net(torch.randn(4, 512)).sum().backward()
            optimizer.step()
            found = hvd.metrics()["bytes"] - before
        return found

    matrix, rows = 4 * 512 * 256, 4 * 4 * (512 + 256)
    words = sent(None) - matrix  # what ranks tell one another in each step
    assert 0 <= words < 100
    assert sent("auto") in (rows + words, here.size * rows + words)


@check(min_ranks=2)
def auto_leaves_out_what_factors_do_not_tell(here: Here) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(INPUTS, INPUTS)
            self.second = torch.nn.Linear(INPUTS, INPUTS)
            self.second.weight = self.first.weight
            self.again = torch.nn.Linear(INPUTS, INPUTS)
            self.fine = torch.nn.Linear(INPUTS, INPUTS)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fine(self.again(self.again(self.second(self.first(x)))))

    def run(factors: Any) -> tuple[Any, Any]:
        torch.manual_seed(2)
        net = Tied().double()
        optimizer = wrapped(net, factors)
        for step in range(3):
            optimizer.zero_grad()
            net(data(here, step, 2)).square().mean().backward()
            optimizer.step()
        return net, optimizer

    net, optimizer = run("auto")
    plain, _ = run(None)
    assert optimizer.factored_parameters == ["fine.weight"]
    for mine, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-13)
    with raises(ValueError, "'first.weight'", "several modules share it"):
        run(True)


def _hooked(net: Any, kind: str) -> None:
    """As programs prune weights, and watch gradients."""
    if kind == "hook":
        net[0].weight.register_hook(lambda gradient: gradient * (gradient > 0))
    else:
        register = getattr(net[0].weight, "register_post_accumulate_grad_hook", None)
        needs(register, "register_post_accumulate_grad_hook (torch 2.1)")

        def halve(parameter: torch.Tensor) -> None:
            parameter.grad = 0.5 * parameter.grad

        register(halve)


@check(min_ranks=2, kind=("hook", "hook behind the sum"))
def auto_leaves_out_weights_with_hooks_of_the_program(here: Here, kind: str) -> None:
    nets = [wide(), wide()]
    for net, factors in zip(nets, ("auto", None), strict=True):
        _hooked(net, kind)
        optimizer = wrapped(net, factors)
        train(here, net, optimizer, rows=lambda step: 1)
        assert optimizer.factored_parameters == (["2.weight"] if factors else [])
    for mine, theirs in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-13)
    net = wide()
    _hooked(net, kind)
    with raises(ValueError, "'0.weight'", "it has a hook", "'auto'"):
        train(here, net, wrapped(net, True), steps=1)


@check(min_ranks=2)
def a_hook_that_comes_later_is_noticed(here: Here) -> None:
    net, optimizer = begun(here)
    _hooked(net, "hook")
    loss(net, data(here, 2, 4)).backward()
    with raises(RuntimeError, "'0.weight' has got a hook after the first step"):
        optimizer.step()


@check(min_ranks=2)
def true_refuses_a_layer_that_runs_twice(here: Here) -> None:
    net = torch.nn.Linear(INPUTS, INPUTS).double()
    optimizer = wrapped(net, True)
    net(net(data(here, 0, 2))).sum().backward()
    with raises(ValueError, "runs 2 times in a step", "'auto'"):
        optimizer.step()


# ---- what is refused


@check()
def arguments_that_make_no_sense_are_refused(here: Here) -> None:
    net = wide()
    for how, word in (
        ({"compression": hvd.Compression.int8()}, "int8"),
        ({"compression": hvd.Compression.fp16}, "compression"),
        ({"groups": 1}, "groups=1"),
        ({"op": hvd.Adasum}, "Adasum"),
        ({"backward_passes_per_step": 2}, "backward_passes_per_step=2"),
    ):
        with raises(ValueError, "sufficient_factors is not possible", word):
            wrapped(net, "auto", **how)
    with raises(ValueError, "sufficient_factors='all'"):
        wrapped(net, "all")


def begun(here: Here) -> tuple[Any, Any]:
    """A step further than the choice."""
    net = wide()
    with guarded("off"):
        optimizer = wrapped(net, True)
    train(here, net, optimizer, steps=2)
    optimizer.zero_grad()
    return net, optimizer


@check(min_ranks=2)
def a_layer_that_runs_twice_later_is_noticed(here: Here) -> None:
    net, optimizer = begun(here)
    x = data(here, 2, 4)
    with raises(RuntimeError, "'0.weight' twice in one step()"):
        (net[0](x).sum() + net[0](x).sum()).backward()
    optimizer._hvd.forget()


@check(min_ranks=2)
def a_second_backward_pass_is_noticed(here: Here) -> None:
    net, optimizer = begun(here)
    loss(net, data(here, 2, 4)).backward()
    with raises(RuntimeError, "twice in one step()"):
        loss(net, data(here, 3, 4)).backward()
    optimizer._hvd.forget()
    with raises(ValueError, "backward_passes_per_step=2"):
        optimizer.set_backward_passes_per_step(2)


@check(min_ranks=2)
def a_gradient_that_was_not_cleared_is_noticed(here: Here) -> None:
    net, optimizer = begun(here)
    net[0].weight.grad = torch.ones_like(net[0].weight)
    loss(net, data(here, 2, 4)).backward()
    with raises(RuntimeError, "'0.weight' had a gradient before backward()"):
        optimizer.step()


@check(min_ranks=2)
def a_weight_that_is_used_elsewhere_is_noticed(here: Here) -> None:
    net, optimizer = begun(here)
    (loss(net, data(here, 2, 4)) + net[0].weight.sum()).backward()
    with raises(RuntimeError, "'0.weight' is used outside its layer"):
        optimizer.step()
    optimizer.zero_grad()
    train(here, net, optimizer, steps=1)  # the next step is one as before


@check(min_ranks=2)
def differentiating_twice_is_refused(here: Here) -> None:
    net, optimizer = begun(here)
    x = data(here, 2, 4).requires_grad_()
    with raises(RuntimeError, "create_graph=True", "leave sufficient_factors out"):
        torch.autograd.grad(loss(net, x), x, create_graph=True)
    optimizer._hvd.forget()


@check(min_ranks=2)
def ranks_that_differ_are_told(here: Here) -> None:
    net = wide()
    optimizer = wrapped(net, "auto" if here.rank else None)
    loss(net, data(here, 0, 4)).backward()
    with raises(hvd.MismatchError, "sufficient_factors='auto'"):
        optimizer.step()


# ---- the layers stay layers


@check(min_ranks=2)
def gradients_for_the_caller_are_the_ranks_own(here: Here) -> None:
    """autograd.grad() sends nothing, and returns what it does without factors."""
    net, optimizer = begun(here)
    plain = copy.deepcopy(net)
    x, y = (data(here, 2, 4).requires_grad_() for _ in range(2))
    wanted = torch.autograd.grad(loss(plain, y), [y, plain[0].weight])
    found = torch.autograd.grad(loss(net, x), [x, net[0].weight])
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)
    (alone,) = torch.autograd.grad(loss(net, x), x)
    torch.testing.assert_close(alone, wanted[0])
    assert not optimizer._hvd.under_way
    train(here, net, optimizer, steps=1)


@check(min_ranks=2)
def copies_and_pickles_are_plain_layers(here: Here) -> None:
    net, optimizer = begun(here)
    assert type(net[0]) is not torch.nn.Linear and isinstance(net[0], torch.nn.Linear)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert type(other[0]) is torch.nn.Linear
        x = data(here, 2, 4)
        assert torch.equal(other(x), net(x))
    with torch.no_grad():
        net(data(here, 2, 4))
    again = pickle.loads(pickle.dumps(optimizer))
    assert again._hvd.options.sufficient_factors is True


@check(min_ranks=2)
def another_optimizer_takes_the_layers_over(here: Here) -> None:
    net, first = begun(here)
    second = wrapped(net, None)
    train(here, net, second, steps=2)
    equal_everywhere(net)
    third = wrapped(net, "auto")
    train(here, net, third, steps=2)
    assert first.factored_parameters and not second.factored_parameters
    assert third.factored_parameters
    equal_everywhere(net)


@check(min_ranks=2)
def modules_are_watched_in_the_first_step_only(here: Here) -> None:
    hooks = torch.nn.modules.module._global_forward_hooks
    gc.collect()  # the optimizers of other checks
    before = len(hooks)
    net, optimizer = begun(here)
    assert len(hooks) == before
    other = wrapped(net, "auto")
    assert len(hooks) == before + 1
    del other
    gc.collect()
    assert len(hooks) == before
    assert optimizer.factored_parameters


@check(min_ranks=2)
def compiled_layers_send_gradients(here: Here) -> None:
    needs_newer_compiler("takes layers of other classes")
    net, plain = wide(), wide()
    compiled = torch.compile(net, backend="eager")
    optimizer = wrapped(net, True)
    other = wrapped(plain, None)
    for step in range(3):
        for each, its in ((compiled, optimizer), (plain, other)):
            its.zero_grad()
            each(data(here, step, 4)).square().mean().backward()
            its.step()
    assert optimizer.factored_parameters == []
    for mine, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-13)


@check(min_ranks=2)
def a_frozen_weight_stays_as_it_is(here: Here) -> None:
    net, optimizer = begun(here)
    net[0].weight.requires_grad_(False)
    before = net[0].weight.clone()
    optimizer.zero_grad()
    loss(net, data(here, 2, 4)).backward()
    optimizer.step()
    assert net[0].weight.grad is None and torch.equal(net[0].weight, before)
    net[0].weight.requires_grad_(True)
    train(here, net, optimizer, steps=1)
    assert not torch.equal(net[0].weight, before)
    equal_everywhere(net)
