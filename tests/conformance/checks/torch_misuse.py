"""DistributedOptimizer: what is wrong is noticed, with a sentence that says what to do."""

from __future__ import annotations

import contextlib
import os
import warnings

import torch

import hvdlite.torch as hvd
from checks import check
from checks.here import Here, raises
from checks.torch_training import (
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


@check()
def wrong_arguments_are_refused(here: Here) -> None:
    net = model()
    named = list(net.named_parameters())

    def make(**how: object) -> None:
        hvd.DistributedOptimizer(sgd(net.parameters()), **how)

    for error, words, how in (
        (ValueError, ("pairs of a name",), {"named_parameters": net.parameters()}),
        (
            ValueError,
            ("more than once", "0.bias"),
            {"named_parameters": [(n.replace("weight", "bias"), p) for n, p in named]},
        ),
        (ValueError, ("leaves out parameters", "0.1"), {"named_parameters": named[:1]}),
        (ValueError, ("1 or more",), {"backward_passes_per_step": 0}),
        (
            ValueError,
            ("gradient_predivide_factor",),
            {"gradient_predivide_factor": 2.0, "op": hvd.Sum},
        ),
        (ValueError, ("op=",), {"op": hvd.Max}),
        (ValueError, ("groups",), {"groups": 0}),
        (ValueError, ("groups",), {"groups": -1}),
        (ValueError, ("groups",), {"groups": "all"}),
        (ValueError, ("groups",), {"groups": [1, 2]}),
        (ValueError, ("groups",), {"groups": [["0.weight"]]}),
        (ValueError, ("more than once",), {"groups": [[named[0][1]], [named[0][1]]]}),
        (NotImplementedError, ("Adasum",), {"op": hvd.Adasum, "process_set": hvd.ProcessSet([0])}),
    ):
        with raises(error, *words):
            make(**how)
    with raises(TypeError, "Optimizer"):
        hvd.DistributedOptimizer(net)
    with raises(ValueError, "LBFGS"):
        hvd.DistributedOptimizer(torch.optim.LBFGS(net.parameters()))
    with raises(ValueError, "already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(sgd(net.parameters())))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(num_groups=1)
    assert [w.category for w in caught] == [DeprecationWarning]


@check(min_ranks=2)
def zero_grad_between_backward_and_step_is_an_error(here: Here) -> None:
    net, optimizer = distributed()
    backward(here, net)
    with raises(AssertionError, "optimizer.zero_grad() between backward() and step()"):
        optimizer.zero_grad()
    with raises(AssertionError):
        optimizer.zero_grad(set_to_none=True)
    optimizer.synchronize()
    optimizer.zero_grad()
    backward(here, net)
    net.zero_grad()  # the model's own cannot be caught there, but in step()
    with raises(AssertionError, "was replaced", "'2.bias'"):
        optimizer.step()
    backward(here, net)
    optimizer.step()
    equal_everywhere(net)


@check(min_ranks=2, used=("in turn", "the first alone", "the first alone, twice"))
def two_optimizers_that_share_parameters_are_told_so(here: Here, used: str) -> None:
    passes = 2 if "twice" in used else 1
    net = model()
    first = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())
    second = hvd.DistributedOptimizer(
        sgd(net[0].parameters()), net[0].named_parameters("0"), backward_passes_per_step=passes
    )
    words = ("'0.weight' (and 1 more)", "an earlier hvd.DistributedOptimizer", "made last")
    for _ in range(passes):
        first.zero_grad()
        backward(here, net)
        first.step()
    with raises(AssertionError, *words):
        if used == "in turn":
            second.zero_grad()
        else:
            first.zero_grad()
            backward(here, net)
    with (
        raises(AssertionError, "was replaced", *words)
        if used != "in turn"
        else contextlib.nullcontext()
    ):
        second.synchronize()
    del first
    hvd.barrier()
    net.zero_grad()
    for _ in range(passes):
        backward(here, net)
    with raises(AssertionError, "zero_grad() between backward() and step()") as caught:
        second.zero_grad()
    assert "another" not in str(caught[0])
    second.synchronize()


@check(min_ranks=2)
def two_optimizers_that_share_parameters_may_both_make_a_step_with_an_average(here: Here) -> None:
    def train(distributed: bool) -> torch.nn.Module:
        net = model()
        optimizers = [
            torch.optim.SGD(net.parameters(), lr=0.1),
            torch.optim.SGD(net[2].parameters(), lr=0.2),
        ]
        if distributed:
            optimizers = [hvd.DistributedOptimizer(optimizer) for optimizer in optimizers]
        for x, y in batches(here, 3):
            for optimizer in optimizers:
                optimizer.zero_grad()
            mean_square(
                net, *((part(here, x), part(here, y)) if distributed else (x, y))
            ).backward()
            for optimizer in optimizers:
                optimizer.step()
        return net

    same(here, train(True), train(False))


@check(min_ranks=2)
def two_optimizers_that_share_parameters_do_not_add_up_their_gradients_twice(here: Here) -> None:
    net = model()
    first = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters(), op=hvd.Sum)
    second = hvd.DistributedOptimizer(
        sgd(net[2].parameters()), net[2].named_parameters("2"), op=hvd.Sum
    )
    before = [parameter.detach().clone() for parameter in net.parameters()]
    backward(here, net)
    with raises(RuntimeError, "'2.weight' (and 1 more)", "made later", "op=Sum"):
        first.step()
    assert all(torch.equal(b, p) for b, p in zip(before, net.parameters(), strict=True))
    second.step()
    equal_everywhere(net)
    del second
    net.zero_grad()
    backward(here, net)
    first.step()  # nobody shares any more
    equal_everywhere(net)


@check(min_ranks=2, passes=(1, 2))
def too_many_backward_passes_are_an_error(here: Here, passes: int) -> None:
    net, optimizer = distributed(backward_passes_per_step=passes)
    for _ in range(passes):
        backward(here, net)
    with raises(
        AssertionError,
        "backward() has computed more gradients than backward_passes_per_step announces",
    ):
        backward(here, net)
    optimizer.load_state_dict(optimizer.state_dict())  # forgets what was under way
    hvd.barrier()
    optimizer.zero_grad()
    for _ in range(passes):
        backward(here, net)
    optimizer.step()


@check(min_ranks=2)
def step_after_synchronize_warns_exactly_once(here: Here) -> None:
    net, optimizer = distributed()
    for skip in (True, False):
        optimizer.zero_grad()
        backward(here, net)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            optimizer.synchronize()
            if skip:
                with optimizer.skip_synchronize():
                    optimizer.step()
            else:
                optimizer.step()
        assert len(caught) == (0 if skip else 1), [str(w.message) for w in caught]
    assert (
        "optimizer.step() called without optimizer.skip_synchronize() context after "
        "optimizer.synchronize()" in str(caught[0].message)
    )
    equal_everywhere(net)


@check(min_ranks=2)
def a_failure_in_a_hook_surfaces_in_step(here: Here) -> None:
    class Broken:
        @staticmethod
        def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, None]:
            raise OSError("the disk of the compressor is full")

        @staticmethod
        def decompress(tensor: torch.Tensor, context: None) -> torch.Tensor:
            return tensor

    net, optimizer = distributed(compression=Broken)
    backward(here, net)
    with raises(OSError, "the disk of the compressor is full"):
        optimizer.step()
    net = model(seed=2)
    if here.rank == 1:
        net[2] = torch.nn.Linear(5, 3 + 1).double()
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())
    os.environ["HVDLITE_PARAMETER_CHECK"] = "off"
    try:
        optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())
    finally:
        del os.environ["HVDLITE_PARAMETER_CHECK"]
    net(torch.ones(2, 6).double()).sum().backward()
    with raises(hvd.MismatchError, "2.bias", "rank 1 sent shape [4]", "[3]") as caught:
        optimizer.step()
    here.same_on_all_ranks(type(caught[0]).__name__)


@check(min_ranks=2, mode=("warn", "error", "off"))
def ranks_that_start_with_different_parameters_are_told(here: Here, mode: str) -> None:
    os.environ["HVDLITE_PARAMETER_CHECK"] = mode
    before = os.environ.get("HVDLITE_DRIFT", "warn")
    os.environ["HVDLITE_DRIFT"] = "off" if mode == "off" else before
    try:
        net = model()
        if here.rank == here.size - 1:
            with torch.no_grad():
                net[2].weight[-1, -1] += 1e-3  # the last of its elements alone
                net[2].bias[-1] += 1
        optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())
        backward(here, net)
        words = ("'2.weight'", "1 more", "rank 0", f"rank {here.size - 1}", "broadcast_parameters")
        if mode == "error":
            with raises(hvd.MismatchError, *words):
                optimizer.step()
            return
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            optimizer.step()
            optimizer.zero_grad()
            backward(here, net)
            optimizer.step()
        assert len(caught) == (1 if mode == "warn" and here.rank == 0 else 0)
        assert not caught or all(word in str(caught[0].message) for word in words), str(
            caught[0].message
        )
    finally:
        os.environ["HVDLITE_DRIFT"] = before
        del os.environ["HVDLITE_PARAMETER_CHECK"]


@check()
def an_optimizer_that_evaluates_its_closure_twice_is_refused(here: Here) -> None:
    class Twice(torch.optim.SGD):
        def step(self, closure):  # type: ignore[no-untyped-def, override]
            closure()
            return closure()

    net = model()
    optimizer = hvd.DistributedOptimizer(Twice(net.parameters(), lr=0.1), net.named_parameters())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        backward(here, net)
        return torch.ones(1)

    with raises(RuntimeError, "closure more than once"):
        optimizer.step(closure)
