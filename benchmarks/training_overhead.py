"""What hvdlite.torch costs per gradient, in a job of one rank: hook, submission and completion, and
no communication.

Prints JSON, in microseconds: an empty hook of torch's own, one that keeps the gradient, and
hvdlite's, each beyond a step without hooks. The ways take turns, step by step, because a machine's
speed may halve from one second to the next.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable

import torch
import training_models

COUNT = 200
WARM_UP = 20
STEPS = 800


def make(
    hook: Callable[[torch.Tensor], None] | None, finish: Callable[[], None] | None
) -> Callable[[], None]:
    """A step over parameters of their own; without `finish`, they are those of an optimizer of
    hvdlite's."""
    import hvdlite.torch as hvd

    parameters = [torch.nn.Parameter(torch.zeros(16)) for _ in range(COUNT)]
    gradients = [torch.ones(16) for _ in range(COUNT)]
    end = (
        hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.0)).synchronize
        if finish is None
        else finish
    )
    for parameter in parameters if hook is not None else ():
        parameter.register_post_accumulate_grad_hook(hook)

    def step() -> None:
        for parameter in parameters:
            parameter.grad = None
        training_models._Given.apply(gradients, *parameters).backward()
        end()

    return step


def main() -> None:
    os.environ["HVDLITE_ELASTIC"] = "1"  # hooks also where a rank is alone
    import hvdlite.torch as hvd

    torch.set_num_threads(1)
    hvd.init()
    kept: list[torch.Tensor | None] = []
    ways = {
        "no hook": make(None, lambda: None),
        "empty hook": make(lambda p: None, lambda: None),
        "hook that keeps the gradient": make(lambda p: kept.append(p.grad), kept.clear),
        "hvdlite": make(None, None),
    }
    laps: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(WARM_UP + STEPS):
        for name, step in ways.items():
            start = time.perf_counter()
            step()
            laps[name].append((time.perf_counter() - start) / COUNT * 1e6)
    # The lower quartile: what others take from this machine comes on top.
    found = {name: statistics.quantiles(values[WARM_UP:], n=4)[0] for name, values in laps.items()}
    bare = found.pop("no hook")
    print(json.dumps({name: microseconds - bare for name, microseconds in found.items()}))


if __name__ == "__main__":
    main()
