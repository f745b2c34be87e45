"""What hvdlite.torch costs per gradient, in a job of one rank: hook, submission and completion, and no communication.

Prints JSON, in microseconds: an empty hook of torch's own, one that keeps the gradient, and hvdlite's.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

import torch
import training_models

COUNT = 200


def per_gradient(step: Callable[[], None]) -> float:
    """The fastest of many, by gradient."""
    for _ in range(20):
        step()
    fastest = float("inf")
    for _ in range(400):
        start = time.perf_counter()
        step()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest / COUNT * 1e6


def main() -> None:
    os.environ["HVDLITE_ELASTIC"] = "1"  # hooks also where a rank is alone
    import hvdlite.torch as hvd

    torch.set_num_threads(1)
    hvd.init()
    found = {}
    kept: list[torch.Tensor | None] = []
    hooks = {"empty hook": lambda p: None, "hook that keeps the gradient": lambda p: kept.append(p.grad)}
    for name in ("no hook", *hooks, "hvdlite"):
        parameters = [torch.nn.Parameter(torch.zeros(16)) for _ in range(COUNT)]
        gradients = [torch.ones(16) for _ in range(COUNT)]
        finish: Callable[[], None] = kept.clear
        if name == "hvdlite":
            finish = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.0)).synchronize
        elif name in hooks:
            for parameter in parameters:
                parameter.register_post_accumulate_grad_hook(hooks[name])

        def step(parameters: list[torch.nn.Parameter] = parameters, gradients: list[torch.Tensor] = gradients,
                 finish: Callable[[], None] = finish) -> None:  # fmt: skip
            for parameter in parameters:
                parameter.grad = None
            training_models._Given.apply(gradients, *parameters).backward()
            finish()

        found[name] = per_gradient(step)
    bare = found.pop("no hook")
    print(json.dumps({name: microseconds - bare for name, microseconds in found.items()}))


if __name__ == "__main__":
    main()
