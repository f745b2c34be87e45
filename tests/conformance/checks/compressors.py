"""Compression with memory, in what distributes an optimizer's gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks import check
from checks.api import Run, hvd
from checks.choosing import on_a_slow_network
from checks.here import AVERAGE, Here
from checks.runs import SHAPES, close, gradients, mean_gradients, same_everywhere

METHODS = {
    "topk": lambda: hvd.Compression.topk(0.1),
    "dgc": lambda: hvd.Compression.dgc(0.1, momentum=0.0),
    "powersgd": lambda: hvd.Compression.powersgd(1),
    "int8": lambda: hvd.Compression.int8(),
    "ternary": lambda: hvd.Compression.ternary(2.5, error_feedback=True),
}


@check(method=tuple(METHODS), seconds=60)
def sent_and_kept_is_the_sum_of_all_gradients(here: Here, method: str) -> None:
    for mode in Run.modes:
        adds_up(here, METHODS[method](), mode)


def adds_up(here: Here, compression: Any, mode: str = "", op: int = AVERAGE) -> None:
    run = Run(Run.sgd(1.0), mode=mode, op=op, compression=compression)
    run.train(gradients(here.rank, 5))
    memory = run.memory()
    # One rank sends nothing. What has one dimension goes as it is.
    assert here.size == 1 or set(memory) == {"w"}, memory
    residual = memory["w"]["residual"] if memory else np.zeros(SHAPES["w"], np.float32)
    everyones = hvd.allgather_object(residual)
    assert here.size == 1 or all(each.any() for each in everyones)
    kept = {"w": np.mean(everyones, axis=0).reshape(SHAPES["w"]), "b": 0.0}
    given, weights = mean_gradients(here, 5), run.weights()
    for key in SHAPES:
        total = sum(step[key] for step in given) - kept[key]
        factor = 1 if op == AVERAGE else here.size
        np.testing.assert_allclose(-weights[key], total * factor, atol=1e-4 * factor)
    same_everywhere(here, weights)


EVERYTHING = {
    "topk": lambda: hvd.Compression.topk(1.0),
    "dgc": lambda: hvd.Compression.dgc(1.0, momentum=0.9, masking=False),
    "masking": lambda: hvd.Compression.dgc(1.0, momentum=0.9),
}


@check(method=tuple(EVERYTHING), seconds=60)
def a_density_of_one_is_sgd(here: Here, method: str) -> None:
    """With momentum, unless masking ends that of all elements in each step."""
    momentum = {"w": 0.9 if method == "dgc" else 0.0, "b": 0.0 if method == "topk" else 0.9}
    for mode in {Run.mode: 0, Run.modes[-1]: 0}:
        run = Run(Run.sgd(0.05), mode=mode, compression=EVERYTHING[method]())
        run.train(gradients(here.rank, 20))
        close(run.weights(), sgd(mean_gradients(here, 20), 0.05, momentum), 1e-5)
        same_everywhere(here, run.weights())


def sgd(given: Any, rate: float, momentum: dict[str, float]) -> dict[str, Any]:
    """What plain numpy makes of zeros."""
    weights = {key: np.zeros(shape) for key, shape in SHAPES.items()}
    velocity = dict(weights)
    for gradient in given:
        for key in SHAPES:
            velocity[key] = momentum[key] * velocity[key] + gradient[key]
            weights[key] = weights[key] - rate * velocity[key]
    return weights


@check(min_ranks=2, seconds=60)
def auto_compresses_on_a_slow_network(here: Here) -> None:
    for mode in Run.modes:
        candidates = [hvd.Compression.int8(), hvd.Compression.sign(skip="*")]
        compression = on_a_slow_network(hvd.Compression.auto(candidates))
        run = Run(Run.sgd(1.0), mode=mode, compression=compression)
        before = hvd.metrics()["bytes_encoded"]
        run.train(gradients(here.rank, Run.trials + 1))
        assert hvd.metrics()["bytes_encoded"] > before
        memory = run.memory()
        assert set(memory) == {"w"} and set(memory["w"]) == {"residual", "step"}, memory
        assert "int8(error_feedback=True)" in compression.said, compression.said
        same_everywhere(here, run.weights())


@check(min_ranks=2, seconds=60)
def auto_chooses_casts_too(here: Here) -> None:
    for mode in Run.modes:
        compression = on_a_slow_network(hvd.Compression.auto([hvd.Compression.bf16]))
        run = Run(Run.sgd(1.0), mode=mode, compression=compression)
        long = {key: np.full(shape, 1.0 + 2.0**-10, np.float32) for key, shape in SHAPES.items()}
        if Run.trials:
            run.train([long] * Run.trials)
        before = run.weights()
        run.train([long])
        assert "bfloat16" in compression.said, compression.said
        moved = {key: before[key] - weights for key, weights in run.weights().items()}
        close(moved, {"w": np.ones(SHAPES["w"]), "b": long["b"]}, 1e-6)


@check(min_ranks=2, seconds=60)
def auto_measures_the_network_and_leaves_one_host_alone(here: Here) -> None:
    compression = hvd.Compression.auto()
    before = hvd.metrics()["bytes_encoded"]
    run = Run(Run.sgd(1.0), compression=compression)  # on JAX it measures here
    run.train(gradients(here.rank, 9))
    same_everywhere(here, run.weights())
    assert compression.said
    here.same_on_all_ranks(compression.said)
    if hvd.local_size() == hvd.size():
        assert "no compression; all ranks are on one host" in compression.said
        assert hvd.metrics()["bytes_encoded"] == before
    else:
        assert hvd.metrics()["bytes_encoded"] > before  # it has tried
