"""Local steps and large batches with torch: what is exact is checked exactly."""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import check
from checks.here import Here, raises
from checks.torch_drift import guarded
from checks.torch_training import (
    batches,
    equal_everywhere,
    mean_square,
    model,
    part,
    run_steps,
    same,
)
from hvdlite.adapter.agreement import drift


def plain(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.2)


def with_momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def local(make: Any = plain, net: Any = None, **how: Any) -> tuple[Any, Any]:
    net = net or model()
    return net, hvd.LocalSGD(make(net.parameters()), named_parameters=net.named_parameters(), **how)


def diloco(make: Any = plain, net: Any = None, **how: Any) -> tuple[Any, Any]:
    net = net or model()
    return net, hvd.DiLoCo(make(net.parameters()), named_parameters=net.named_parameters(), **how)


def weights(net: Any) -> list[torch.Tensor]:
    return [p.detach().clone() for p in net.parameters()]


def averaged(nets: Any) -> None:
    with torch.no_grad():
        for parameters in zip(*(net.parameters() for net in nets), strict=True):
            mean = torch.stack(list(parameters)).mean(0)
            for parameter in parameters:
                parameter.copy_(mean)


def close(net: Any, want: Any) -> None:
    for mine, theirs in zip(net.parameters(), want.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12)


@check(start=(1, 3))
def gradients_stay_where_they_are_after_the_synchronous_steps(here: Here, start: int) -> None:
    net, own = local(with_momentum, every=3, start=start)
    for steps, averages in ((start, 0), (6, 2)):
        run_steps(here, net, own, steps)
        equal_everywhere(net)
        assert own._hvd.reducer is None  # or the next backward pass would send gradients
        assert own._hvd_local_steps.averages == averages


@check(how=("loaded", "broadcast"))
def gradients_stay_where_they_are_after_a_checkpoint_of_a_local_step(here: Here, how: str) -> None:
    net, own = local(every=3, start=1)
    run_steps(here, net, own, 2)
    state = own.state_dict()
    net, own = local(every=3, start=1)
    if how == "loaded" or here.rank == 0:
        own.load_state_dict(state)
    if how == "broadcast":
        hvd.broadcast_optimizer_state(own, 0)
    assert own._hvd.reducer is None


@check(optimizer=("SGD", "Adam"))
def momentum_begins_anew_if_it_is_asked_for(here: Here, optimizer: str) -> None:
    """As with a new inner optimizer after each average."""

    def make(parameters: Any) -> torch.optim.Optimizer:
        if optimizer == "SGD":
            return with_momentum(parameters)
        return torch.optim.Adam(parameters, lr=0.01)

    outer = hvd.OuterSGD(1.0, momentum=0.0)
    net, own = diloco(make, outer=outer, every=3, momentum="reset")
    run_steps(here, net, own, 6)
    nets = [model() for _ in here.ranks]
    for number, (x, y) in enumerate(batches(here, 6)):
        if number % 3 == 0:
            optimizers = [make(each.parameters()) for each in nets]
        for rank, (each, its) in enumerate(zip(nets, optimizers, strict=True)):
            its.zero_grad()
            rows = slice(4 * rank, 4 * rank + 4)
            mean_square(each, x[rows], y[rows]).backward()
            its.step()
        if number % 3 == 2:
            averaged(nets)
    close(net, nets[0])
    equal_everywhere(net)
    with raises(ValueError, "momentum='average'", "'reset'"):
        diloco(momentum="average")


@check(fragments=(2, 4))
def fragments_are_averaged_in_turn(here: Here, fragments: int) -> None:
    net, own = diloco(outer=hvd.OuterSGD(1.0, momentum=0.0), every=4, fragments=fragments)
    before = weights(net)
    run_steps(here, net, own, 4)
    assert own._hvd_local_steps.averages == fragments
    whole, other = diloco(outer=hvd.OuterSGD(1.0, momentum=0.0), every=4)
    run_steps(here, whole, other, 4)
    moved = [not torch.equal(a, b) for a, b in zip(before, weights(net), strict=True)]
    assert all(moved)
    own.sync()
    equal_everywhere(net)


@check()
def an_average_that_travels_keeps_what_the_rank_does_meanwhile(here: Here) -> None:
    outer = hvd.OuterSGD(1.0, momentum=0.0)
    net, own = diloco(outer=outer, every=4, overlap=2)
    want, other = diloco(outer=outer, every=4)
    data = batches(here, 6)

    def step(net: Any, optimizer: Any, number: int) -> None:
        optimizer.zero_grad()
        x, y = data[number]
        mean_square(net, part(here, x), part(here, y)).backward()
        optimizer.step()

    for number in range(4):
        step(net, own, number)
        step(want, other, number)
    launched = model()
    launched.load_state_dict(net.state_dict())
    assert own._hvd_local_steps.averages == 0
    step(net, own, 4)
    step(net, own, 5)
    assert own._hvd_local_steps.averages == 1
    after = model()
    after.load_state_dict(launched.state_dict())
    single = plain(after.parameters())
    step(after, single, 4)
    step(after, single, 5)
    for got, mean, start, end in zip(*map(weights, (net, want, launched, after)), strict=True):
        torch.testing.assert_close(got, end + (mean - start), rtol=1e-11, atol=1e-12)
    own.sync()
    equal_everywhere(net)


@check()
def a_loss_that_falls_shrinks_the_interval_on_all_ranks(here: Here) -> None:
    net, own = local(every=4, adaptive=True)
    for number, loss in enumerate([4.0] * 4 + [1.0] * 4 + [1.0 + here.rank / here.size] * 2):
        if number < 8:
            own.note(loss=torch.tensor(loss))
            run_steps(here, net, own, 1)
            continue
        own.zero_grad()
        x, y = batches(here, 1)[0]
        mean_square(net, part(here, x), part(here, y)).backward()
        own.step(lambda loss=loss: torch.tensor(loss))
    assert own._hvd_local_steps.averages == 3, own._hvd_local_steps.averages
    intervals = hvd.allgather_object(own._hvd_local_steps._count.interval)
    assert len(set(intervals)) == 1 and intervals[0] < 4, intervals


@check()
def the_bytes_are_those_of_one_step_in_an_interval(here: Here) -> None:
    """A step of synchronous training sends all gradients; an average sends all weights and two
    numbers, and before a byte for the average and one for each parameter."""
    size = sum(p.numel() * p.element_size() for p in model().parameters())
    size += 1 + len(list(model().parameters()))

    def sent(every: int, steps: int) -> int:
        with guarded("off"):
            net, own = local(every=every)
        run_steps(here, net, own, every)
        before = hvd.metrics()["bytes"]
        run_steps(here, net, own, steps)
        return hvd.metrics()["bytes"] - before

    numbers, words = 16, drift.WORDS  # what tells the drift guard that there is none
    assert sent(2, 16) == 8 * (size + numbers + words)
    assert sent(16, 16) * 8 == sent(2, 16)


@check()
def state_is_in_checkpoints(here: Here) -> None:
    net, own = diloco(with_momentum, every=3)
    run_steps(here, net, own, 5)
    kept = io.BytesIO()
    torch.save({"net": net.state_dict(), "own": own.state_dict()}, kept)
    run_steps(here, net, own, 4)
    kept.seek(0)
    found = torch.load(kept, weights_only=True)
    again, other = diloco(with_momentum, net=model(seed=9), every=3)
    again.load_state_dict(found["net"])
    other.load_state_dict(found["own"])
    run_steps(here, again, other, 4)
    for mine, theirs in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@check(min_ranks=2)
def broadcast_optimizer_state_brings_the_outer_state(here: Here) -> None:
    net, own = diloco(every=2)
    run_steps(here, net, own, 4)
    fresh, other = diloco(net=model(seed=5 + here.rank), every=2)
    if here.rank == 0:
        fresh.load_state_dict(net.state_dict())
        other.load_state_dict(own.state_dict())
    hvd.broadcast_parameters(fresh.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(other, root_rank=0)
    run_steps(here, net, own, 4)
    run_steps(here, fresh, other, 4)
    close(fresh, net)


@check()
def it_survives_pickling(here: Here) -> None:
    net, own = local(every=3, momentum="average")
    run_steps(here, net, own, 2)
    again = pickle.loads(pickle.dumps(own))
    assert again._hvd_local_steps.plan == own._hvd_local_steps.plan
    assert again._hvd_local_steps.momentum == "average" and "every=3" in repr(again)
    assert again._hvd_local_steps._count[:6] == own._hvd_local_steps._count[:6]


@check(min_ranks=2)
def a_rank_that_has_joined_does_not_shrink_the_weights(here: Here) -> None:
    """Ranks whose weights are equal keep them."""
    with guarded("off"):
        net, own = local(lambda parameters: torch.optim.SGD(parameters, lr=0.0), every=2)
    before = weights(net)
    run_steps(here, net, own, 2 if here.rank == 0 else 4)
    for mine, start in zip(weights(net), before, strict=True):
        torch.testing.assert_close(mine, start, rtol=1e-14, atol=0)
    hvd.join()
    own.sync()
    equal_everywhere(net)


@check(min_ranks=2, kind=("LocalSGD", "DiLoCo"))
def the_drift_guard_compares_behind_averages_only(here: Here, kind: str) -> None:
    make = local if kind == "LocalSGD" else diloco
    with guarded(steps=3):
        net, own = make(every=2)
    run_steps(here, net, own, 12)
    assert own._hvd.guard.compared > 0
    with guarded(steps=3):
        net, own = diloco(every=2)
    run_steps(here, net, own, 2)
    if here.rank == 1:  # its anchors are not the others' any more
        for group in own.param_groups:
            for anchor, _ in group["local_steps"]["outer"].values():
                anchor.add_(1.0)
    with raises(hvd.MismatchError, "differs"):
        run_steps(here, net, own, 16)


@check()
def what_cannot_be_is_refused(here: Here) -> None:
    net, own = local(every=2)
    with raises(ValueError, "already"):
        hvd.DistributedOptimizer(own)
    with raises(ValueError, "already"):
        hvd.LocalSGD(own, every=2)
    with raises(TypeError, "OuterSGD"):
        diloco(outer=0.7)


# ---- large batches


@check()
def lars_with_norms_of_one_is_sgd_with_a_scaled_rate(here: Here) -> None:
    weight = torch.nn.Parameter(torch.tensor([[0.6, 0.8]], dtype=torch.float64))
    other = torch.nn.Parameter(weight.detach().clone())
    lars = hvd.LARS([weight], lr=0.5, momentum=0.9, trust=0.02)
    sgd = torch.optim.SGD([other], lr=0.5 * 0.02, momentum=0.9)
    weight.grad = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    other.grad = weight.grad.clone()
    lars.step()
    sgd.step()
    torch.testing.assert_close(weight, other, rtol=1e-14, atol=0)


@check(optimizer=("LARS", "LAMB"))
def biases_and_norm_layers_are_left_out(here: Here, optimizer: str) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)).double()
    own = getattr(hvd, optimizer)(net.parameters(), lr=0.1, weight_decay=0.1)
    assert own.param_groups[0]["adapt"] == [True, False, False, False]
    other = getattr(hvd, optimizer)(net.parameters(), lr=0.1, exclude=lambda p: True)
    assert not any(other.param_groups[0]["adapt"])
    off = getattr(hvd, optimizer)([{"params": list(net.parameters()), "adapt": False}], lr=0.1)
    assert not any(off.param_groups[0]["adapt"])
    again = pickle.loads(pickle.dumps(hvd.DistributedOptimizer(other)))
    assert again.param_groups[0]["adapt"] == other.param_groups[0]["adapt"]
    bias, before = net[0].bias, net[0].bias.detach().clone()
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    own.step()
    # Adam's first step is the sign of the gradient, but for eps.
    torch.testing.assert_close(bias.detach(), before - 0.1, rtol=0, atol=1e-6)


@check()
def lamb_is_the_papers(here: Here) -> None:
    """By hand, in float64."""
    torch.manual_seed(3)
    weight = torch.nn.Parameter(torch.randn(3, 4, dtype=torch.float64))
    own = hvd.LAMB([weight], lr=0.01, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1)
    w = weight.detach().clone()
    m = v = torch.zeros_like(w)
    for step in range(1, 5):
        gradient = torch.randn(3, 4, dtype=torch.float64)
        weight.grad = gradient.clone()
        own.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.99 * v + 0.01 * gradient**2
        r = (m / (1 - 0.9**step)) / ((v / (1 - 0.99**step)).sqrt() + 1e-6) + 0.1 * w
        w = w - 0.01 * w.norm() / r.norm() * r
        torch.testing.assert_close(weight.detach(), w, rtol=1e-12, atol=1e-14)


@check(norm=(2.0, 1.0, float("inf")))
def clipping_reduces_first_and_sends_nothing(here: Here, norm: float) -> None:
    def train(distributed: bool) -> torch.nn.Module:
        net = model()
        own: Any = with_momentum(net.parameters())
        if distributed:
            own = hvd.DistributedOptimizer(own, net.named_parameters())
        for x, y in batches(here, 4):
            own.zero_grad()
            if distributed:
                mean_square(net, part(here, x), part(here, y)).backward()
                hvd.clip_grad_norm_(own, 0.1, norm)
            else:
                mean_square(net, x, y).backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1, norm)
            own.step()
        return net

    same(here, train(True), train(False))


@check(norm=(2.0, 1.0, float("inf")))
def shards_are_clipped_by_the_norm_of_all(here: Here, norm: float) -> None:
    everything = torch.arange(1.0, 4.0 * here.size + 1, dtype=torch.float64)
    whole = torch.nn.Parameter(torch.zeros_like(everything))
    whole.grad = everything.clone()
    want = torch.nn.utils.clip_grad_norm_([whole], 1.0, norm)
    rows = slice(4 * here.rank, 4 * here.rank + 4)
    mine = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
    mine.grad = everything[rows].clone()
    before = hvd.metrics()["bytes"]
    got = hvd.clip_grad_norm_([mine], 1.0, norm, sharded=True)
    assert hvd.metrics()["bytes"] - before == 8
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(mine.grad, whole.grad[rows])
    empty = torch.nn.Parameter(torch.zeros(4))
    hvd.clip_grad_norm_([empty], 1.0, norm, sharded=True)


@check()
def the_rate_grows_step_by_step_to_that_of_all_ranks(here: Here) -> None:
    net = model()
    own = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1))
    schedule = hvd.LinearWarmUp(own, steps=4)
    rates = []
    for _ in range(6):
        rates.append(own.param_groups[0]["lr"] / 0.1)
        run_steps(here, net, own, 1)
        schedule.step()
    want = [1 + (here.size - 1) * share for share in (0.25, 0.5, 0.75, 1.0, 1.0, 1.0)]
    torch.testing.assert_close(torch.tensor(rates), torch.tensor(want))
    schedule.load_state_dict(schedule.state_dict())
