"""A rank of watching.py: makes as many steps as it is told to, and says what they took.

The gradients are those of a ResNet-50, each an eighth as large, and cost nothing to compute. What
is left of a step is the exchange of gradients and the update.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

import torch
import training_models
import workloads

import hvdlite.torch as hvd

_SMALLER = 8


def main() -> None:
    folder, progress = sys.argv[1], sys.argv[2] == "progress"
    torch.set_num_threads(1)
    hvd.init()
    sizes = [max(1, workloads.numbers(shape) // _SMALLER) for _, shape in workloads.resnet50()]
    parameters = [torch.nn.Parameter(torch.zeros(size)) for size in sizes]
    gradients = [torch.ones(size) for size in sizes]
    named = [(f"layer{i}", parameter) for i, parameter in enumerate(parameters)]
    plain = torch.optim.SGD(parameters, lr=1e-6, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=named)

    def train(steps: int) -> float:
        begin = time.perf_counter()
        for _ in hvd.progress(range(steps)) if progress else range(steps):
            optimizer.zero_grad()
            training_models._Given.apply(gradients, *parameters).backward()
            optimizer.step()
        return time.perf_counter() - begin

    # FIFOs: opening waits for the other side.
    with (
        open(os.path.join(folder, f"go.{hvd.rank()}")) as orders,
        open(os.path.join(folder, f"done.{hvd.rank()}"), "w", buffering=1) as done,
        contextlib.suppress(BrokenPipeError),
    ):
        for order in orders:
            print(train(int(order)), file=done)


if __name__ == "__main__":
    main()
