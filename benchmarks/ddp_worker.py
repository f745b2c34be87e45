"""One rank of torch.distributed with one backend.

python ddp_worker.py BACKEND SOCKET FILE
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import channel
import rank

RESNET = "ResNet-50's 161 gradients, which cost nothing"
WORKLOADS: dict[str, tuple[int, int, dict[str, Any] | None]] = {
    # warm-up steps, steps, and the options of DistributedDataParallel
    "all_reduce of 16 floats": (200, 2000, None),
    "DDP step, 161 gradients of 64 KiB": (4, 20, {}),
    "the same, buckets of 1 MB": (4, 20, {"bucket_cap_mb": 1}),
    "the same, gradients as views of buckets": (4, 20, {"gradient_as_bucket_view": True}),
    RESNET: (4, 10, {"gradient_as_bucket_view": True}),
}


def _all_reduce() -> Callable[[], Any]:
    import torch
    import torch.distributed as dist

    tensor = torch.zeros(16)
    return lambda: dist.all_reduce(tensor)


def _ddp(options: dict[str, Any]) -> Callable[[], Any]:
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            each = (torch.nn.Parameter(torch.zeros(16384)) for _ in range(161))
            self.all = torch.nn.ParameterList(each)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            total: torch.Tensor = sum((p * x).sum() for p in self.all)  # type: ignore[assignment]
            return total

    model = torch.nn.parallel.DistributedDataParallel(Model(), **options)
    x = torch.ones(1)

    return lambda: model(x).backward()


def _resnet(options: dict[str, Any]) -> Callable[[], Any]:
    import torch
    import training_models

    model = torch.nn.parallel.DistributedDataParallel(training_models.Resnet50(), **options)

    def step() -> None:
        model.zero_grad()
        model(None).backward()

    return step


def _step(name: str, options: dict[str, Any] | None) -> Callable[[], Any]:
    if options is None:
        return _all_reduce()
    return _resnet(options) if name == RESNET else _ddp(options)


class Rank:
    def __init__(self) -> None:
        self._steps: dict[str, Callable[[], Any]] = {}

    def measure(self, order: channel.Message) -> channel.Message:
        name = order["workload"]
        warmup, steps, options = WORKLOADS[name]
        if name not in self._steps:
            self._steps[name] = _step(name, options)
        rank.timed(self._steps[name], warmup)
        return rank.block(lambda: rank.timed(self._steps[name], steps))


def main() -> None:
    rank.prefer()
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    orders = channel.connect(sys.argv[2])
    if sys.argv[1] == "nothing":
        import nothing_backend  # noqa: F401  # registers itself
    dist.init_process_group(sys.argv[1])
    rank.obey(Rank(), orders, dist.get_rank(), dist.get_world_size())


if __name__ == "__main__":
    main()
