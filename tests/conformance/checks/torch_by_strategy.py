"""hvd.DistributedOptimizer(strategy=...) of torch takes the ways that the strategy names."""

from __future__ import annotations

import contextlib
import io
import pickle
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import check
from checks.here import Here, raises
from checks.torch_training import batches, equal_everywhere, mean_square, model, part

STEPS = 4


def sgd(net: Any, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.1, **options)


def adam(net: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(net.parameters(), lr=0.01)


def train(here: Here, net: Any, optimizer: Any, passes: int = 1) -> None:
    for x, y in batches(here, STEPS):
        optimizer.zero_grad()
        for _ in range(passes):
            mean_square(net, part(here, x), part(here, y)).backward()
        optimizer.step()
    if hasattr(optimizer, "sync"):
        optimizer.sync()


# Beside each strategy: the optimizer that a program may make instead, and that it gives to both.
# More of them are in by_strategy.py.
BY_HAND = {
    "nothing": ({}, sgd, hvd.DistributedOptimizer),
    "factors": (
        {"sufficient_factors": True},
        sgd,
        lambda own: hvd.DistributedOptimizer(own, sufficient_factors=True),
    ),
    "diloco": (
        {"local": {"name": "diloco", "every": 2, "overlap": 1, "outer": {"lr": 0.5}}},
        adam,
        lambda own: hvd.DiLoCo(own, hvd.OuterSGD(0.5), every=2, overlap=1),
    ),
}


@check(way=tuple(BY_HAND))
def a_strategy_gives_what_a_program_gets_by_hand(here: Here, way: str) -> None:
    description, make, by_hand = BY_HAND[way]
    passes = description.get("backward_passes_per_step", 1)
    nets = [model(), model()]
    mine = hvd.DistributedOptimizer(make(nets[0]), strategy=hvd.Strategy.from_dict(description))
    theirs = by_hand(make(nets[1]))
    for net, optimizer in zip(nets, (mine, theirs), strict=True):
        train(here, net, optimizer, passes)
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.equal(a, b)
    equal_everywhere(nets[0])


@check(min_ranks=2)
def a_strategy_takes_the_way_that_it_names(here: Here) -> None:
    """By what only that way leaves."""

    def trained(make: Any = sgd, passes: int = 1, **strategy: Any) -> Any:
        net = model()
        optimizer = hvd.DistributedOptimizer(make(net), strategy=hvd.Strategy(**strategy))
        train(here, net, optimizer, passes)
        return optimizer

    memory = trained(compression="int8").compression.state_dict()["memory"]
    assert max(float(state["residual"].abs().max()) for state in memory.values()) > 0
    assert trained(passes=3, backward_passes_per_step=3)._hvd.options.passes == 3
    assert trained(sufficient_factors=True)._hvd.reducer.gathered > 0
    # one interval of three steps, and sync()
    assert trained(local={"every": 3})._hvd_local_steps.averages == 2
    diloco = trained(local={"name": "diloco", "every": 4, "momentum": "reset"})._hvd_local_steps
    assert (diloco.averages, diloco.outer, diloco.momentum) == (2, hvd.OuterSGD(), "reset")


@check(kind=("lars", "lamb"))
def a_large_batch_takes_the_place_of_the_optimizer(here: Here, kind: str) -> None:
    net, want = model(), model()
    if kind == "lars":
        named = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 6)
        given = net.named_parameters() if named else net.parameters()
        own = torch.optim.SGD(given, lr=0.1, momentum=0.8, weight_decay=0.01)
        large = hvd.LARS(want.parameters(), lr=0.1, momentum=0.8, weight_decay=0.01, trust=0.02)
        strategy = hvd.Strategy(large_batch={"name": "lars", "trust": 0.02})
    else:
        own = torch.optim.AdamW(net.parameters(), lr=0.1, eps=1e-6, weight_decay=0.02)
        large = hvd.LAMB(want.parameters(), lr=0.1, eps=1e-6, weight_decay=0.02)
        strategy = hvd.Strategy(large_batch="lamb")
    schedule = torch.optim.lr_scheduler.StepLR(own, step_size=1, gamma=0.5)
    optimizer = hvd.DistributedOptimizer(own, strategy=strategy)
    assert isinstance(optimizer, type(large))
    other = hvd.DistributedOptimizer(large)
    train(here, net, optimizer)
    train(here, want, other)
    for a, b in zip(net.parameters(), want.parameters(), strict=True):
        assert torch.equal(a, b)
    schedule.step()  # which was made before, and goes on
    assert optimizer.param_groups[0]["lr"] == 0.05


@check()
def rank_0_says_the_strategy_once(here: Here) -> None:
    with contextlib.redirect_stderr(io.StringIO()) as said:
        hvd.DistributedOptimizer(sgd(model()), strategy=hvd.Strategy(compression="fp16"))
    line = "hvd.Strategy: Each step reduces the gradients of all ranks. They travel by fp16.\n"
    assert said.getvalue() == (line if here.rank == 0 else "")


@check()
def an_optimizer_by_a_strategy_survives_a_pickle(here: Here) -> None:
    strategy = hvd.Strategy(compression="int8", backward_passes_per_step=2)
    assert pickle.loads(pickle.dumps(strategy)) == strategy
    again = pickle.loads(pickle.dumps(hvd.DistributedOptimizer(sgd(model()), strategy=strategy)))
    assert str(again.compression) == "int8(error_feedback=True)"
    assert again._hvd.options.passes == 2


@check()
def one_strategy_serves_several_optimizers(here: Here) -> None:
    """Each has a memory of its own."""
    strategy = hvd.Strategy(compression="int8")
    both = [hvd.DistributedOptimizer(sgd(model()), strategy=strategy) for _ in range(2)]
    assert both[0].compression is not both[1].compression


@check()
def what_cannot_be_is_refused(here: Here) -> None:
    def refused(words: str, make: Any = sgd, beside: Any = None, **parts: Any) -> None:
        with raises(ValueError, words):
            strategy = hvd.Strategy(**parts)
            hvd.DistributedOptimizer(make(model()), strategy=strategy, **(beside or {}))

    with raises(TypeError, "make one with hvd.Strategy"):
        hvd.DistributedOptimizer(sgd(model()), strategy="int8")
    refused("compression is in the strategy", beside={"compression": hvd.Compression.fp16},
            compression="int8")  # fmt: skip
    none = {"compression": hvd.Compression.none}  # which programs write as well
    hvd.DistributedOptimizer(sgd(model()), strategy=hvd.Strategy(compression="int8"), **none)
    refused("op=1 is not possible with local", beside={"op": hvd.Sum}, local={"every": 4})
    refused("compression=a cast", beside={"compression": hvd.Compression.fp16}, local={"every": 4})
    refused("the place of SGD, and the optimizer is AdamW", adam, large_batch="lars")
    refused("LARS has no dampening", lambda net: sgd(net, momentum=0.9, dampening=0.1),
            large_batch="lars")  # fmt: skip
    refused("momentum would count twice", lambda net: sgd(net, momentum=0.9), compression="dgc")
    refused("momentum would count twice", adam, large_batch="lamb", compression="dgc")
    refused("DistributedOptimizer already", lambda net: hvd.DistributedOptimizer(sgd(net)),
            large_batch="lars")  # fmt: skip
    trained = sgd(model(), momentum=0.9)
    trained.param_groups[0]["params"][0].grad = torch.ones(5, 6, dtype=torch.float64)
    trained.step()
    refused("this one has trained already", lambda net: trained, large_batch="lars")
