"""Mixed precision: PyTorch's own recipe and Horovod's, also when one rank alone overflows."""

from __future__ import annotations

from typing import Any

import torch

import hvdlite.torch as hvd
from checks import check, needs
from checks.here import Here
from checks.torch_training import (
    Training,
    alone,
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
    together,
)


@check()
def autocast_to_bfloat16_nearly_equals_a_single_process(here: Here) -> None:
    def loss(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.nn.functional.mse_loss(net(x).float(), y)

    got = together(here, sgd, net=model(dtype=torch.float32), loss=loss)
    same(
        here, got, alone(here, sgd, net=model(dtype=torch.float32), loss=loss), rtol=0.05, atol=0.02
    )


def _scaler() -> Any:
    needs(hasattr(torch.amp, "GradScaler"), "a GradScaler for the CPU (torch 2.3)")
    return torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=3)


RECIPES = ("pytorch", "pytorch with clipping", "horovod", "horovod with clipping")
WITH = ("in groups", "with accumulation", "with a fused optimizer")


def make_of(recipe: str) -> Any:
    return (
        (lambda parameters: torch.optim.Adam(parameters, fused=True)) if "fused" in recipe else sgd
    )


def options_of(recipe: str) -> dict[str, Any]:
    return {
        "groups": 2 if "groups" in recipe else None,
        "backward_passes_per_step": 2 if "accumulation" in recipe else 1,
    }


@check(recipe=(*RECIPES, *(f"{recipe} {what}" for recipe in RECIPES for what in WITH)))
def scaled_gradients_give_the_weights_of_a_single_process(here: Here, recipe: str) -> None:
    passes = 2 if "accumulation" in recipe else 1
    _scaler()  # older versions have no fused optimizers either

    def train(run: Training) -> float:
        scaler = _scaler()
        for step, x, y in run.steps(8):
            # In step 2 the last rank's loss overflows: no rank may make a step.
            spike = (
                float("inf")
                if step == 2 and (not run.distributed or here.rank == here.size - 1)
                else 1.0
            )
            for _ in range(passes):
                scaler.scale(run.loss(x, y) * spike).backward()
            run.step_of(scaler, recipe)
        return float(scaler.get_scale())

    as_in_one_process(here, train, make_of(recipe), **options_of(recipe))


@check(min_ranks=2)
def a_scaler_that_the_program_has_derived_finds_reduced_gradients(here: Here) -> None:
    needs(hasattr(torch.amp, "GradScaler"), "a GradScaler for the CPU (torch 2.3)")

    # reads the gradients with code of its own, in a module of its own
    class Careful(torch.amp.GradScaler):
        def _unscale_grads_(self, optimizer: Any, inv_scale: Any, *rest: Any) -> Any:
            self.seen = [
                p.grad.clone() for group in optimizer.param_groups for p in group["params"]
            ]
            return super()._unscale_grads_(optimizer, inv_scale, *rest)

    (net, optimizer), scaler = distributed(), Careful("cpu")
    x, y = batches(here, 1)[0]
    scaler.scale(mean_square(net, part(here, x), part(here, y))).backward()
    scaler.step(optimizer)
    for i, gradient in enumerate(scaler.seen):
        assert torch.equal(hvd.broadcast(gradient, 0, f"seen.{i}"), gradient)
    equal_everywhere(net)


@check(min_ranks=2)
def an_overflow_of_one_rank_skips_the_step_of_all_with_adasum_too(here: Here) -> None:
    (net, optimizer), scaler = distributed(op=hvd.Adasum), _scaler()
    for step, (x, y) in enumerate(batches(here, 3)):
        before = net[0].weight.detach().clone()
        optimizer.zero_grad()
        spike = float("inf") if step == 1 and here.rank == here.size - 1 else 1.0
        scaler.scale(mean_square(net, part(here, x), part(here, y)) * spike).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(net[0].weight, before) == (step == 1)
        equal_everywhere(net)
    assert scaler.get_scale() == 2.0**7


@check(min_ranks=2)
def who_looks_up_the_learning_rate_does_not_wait(here: Here) -> None:
    net, optimizer = distributed()
    backward(here, net)
    if here.rank == 0:
        assert optimizer.param_groups[0]["lr"] == 0.2
    hvd.barrier()
    optimizer.step()
    equal_everywhere(net)


@check(min_ranks=2)
def a_gradient_that_one_rank_lacks_is_unscaled_like_the_others(here: Here) -> None:
    net, scaler = model(), _scaler()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=1.0), net.named_parameters()
    )
    before = net[0].weight.detach().clone()
    scaler.scale((net[0].weight if here.rank == 0 else net[0].bias).sum()).backward()
    scaler.step(optimizer)
    torch.testing.assert_close(net[0].weight.detach(), before - 1 / here.size)
    equal_everywhere(net)


@check()
def the_plain_recipe_warns_of_nothing(here: Here) -> None:
    import warnings

    (net, optimizer), scaler = distributed(), _scaler()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in batches(here, 3):
            optimizer.zero_grad()
            scaler.scale(mean_square(net, part(here, x), part(here, y))).backward()
            scaler.step(optimizer)
            scaler.update()
