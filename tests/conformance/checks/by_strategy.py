"""An optimizer that is distributed with strategy= takes the ways that the strategy names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checks import check, needs
from checks.api import Run, hvd
from checks.compressors import sgd
from checks.here import Here
from checks.runs import equal, gradients, mean_gradients, same_everywhere

RATE = 0.1

# Beside each strategy: what a program may call instead, and with which options.
BY_HAND: dict[str, tuple[dict[str, Any], str, Callable[[], dict[str, Any]]]] = {
    "int8": (
        {"compression": "int8"},
        "DistributedOptimizer",
        lambda: {"compression": hvd.Compression.int8()},
    ),
    "dgc": (
        {"compression": {"name": "dgc", "density": 0.2, "clip": 1.0}},
        "DistributedOptimizer",
        lambda: {"compression": hvd.Compression.dgc(0.2, clip=1.0)},
    ),
    "passes": (
        {"backward_passes_per_step": 2, "compression": "bf16"},
        "DistributedOptimizer",
        lambda: {"backward_passes_per_step": 2, "compression": hvd.Compression.bf16},
    ),
    "local_sgd": (
        {"local": {"every": 3, "start": 1}},
        "LocalSGD",
        lambda: {"every": 3, "start": 1},
    ),
    "diloco": (
        {"local": {"name": "diloco", "every": 3, "outer": {"lr": 0.5}}},
        "DiLoCo",
        lambda: {"every": 3, "outer": hvd.OuterSGD(0.5)},
    ),
}


@check(way=tuple(BY_HAND), seconds=60)
def a_strategy_gives_what_a_program_gets_by_hand(here: Here, way: str) -> None:
    needs(Run.has_passes or way != "passes", "backward_passes_per_step")
    description, wrap, options = BY_HAND[way]
    is_local = "local" in description
    mode = Run.modes_of_conditions[0] if is_local else Run.mode
    ours = Run(Run.sgd(RATE), mode=mode, strategy=hvd.Strategy.from_dict(description))
    theirs = Run(Run.sgd(RATE), wrap, mode=mode, **options())
    for run in (ours, theirs):
        run.train(gradients(here.rank, 5))
    assert equal(ours.weights(), theirs.weights())
    if is_local:
        steps, since = ours.count()[:2]
        assert (steps, since) == theirs.count()[:2] and 0 < since < 3  # an average was made
        ours.sync()
    elif here.size > 1:
        dense = sgd(mean_gradients(here, 5), RATE, {"w": 0.0, "b": 0.0})
        least = 1e-2 if way == "passes" else 1e-4  # a step is due, or 8 bits are not exact
        assert abs(ours.weights()["w"] - dense["w"]).max() > least
    same_everywhere(here, ours.weights())
