"""One rank of torch.distributed with one backend.

python ddp_worker.py BACKEND SOCKET FILE
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import channel
import rank

ALONE = "the same with a hook that sends nothing: a bound"
WORKLOADS: dict[str, tuple[int, int, dict[str, Any] | None]] = {
    # warm-up steps, steps, and the options of DistributedDataParallel
    "all_reduce of 16 floats": (200, 2000, None),
    "DDP step, 161 gradients of 64 KiB": (4, 20, {}),
    "the same, buckets of 1 MB": (4, 20, {"bucket_cap_mb": 1}),
    "the same, gradients as views of buckets": (4, 20, {"gradient_as_bucket_view": True}),
    ALONE: (4, 20, {"gradient_as_bucket_view": True}),
}


def _all_reduce() -> Callable[[], Any]:
    import torch
    import torch.distributed as dist

    tensor = torch.zeros(16)
    return lambda: dist.all_reduce(tensor)


def _ddp(options: dict[str, Any], alone: bool) -> Callable[[], Any]:
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

    def sends_nothing(_, bucket):  # type: ignore[no-untyped-def]  # torch reads annotations
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    if alone:
        model.register_comm_hook(None, sends_nothing)
    return lambda: model(x).backward()


class Rank:
    def __init__(self) -> None:
        self._steps: dict[str, Callable[[], Any]] = {}

    def measure(self, order: channel.Message) -> channel.Message:
        name = order["workload"]
        warmup, steps, options = WORKLOADS[name]
        if name not in self._steps:
            self._steps[name] = _all_reduce() if options is None else _ddp(options, name == ALONE)
        rank.timed(self._steps[name], warmup)
        return rank.block(lambda: rank.timed(self._steps[name], steps))


def main() -> None:
    rank.prefer()
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    orders = channel.connect(sys.argv[2])
    dist.init_process_group(sys.argv[1])
    rank.obey(Rank(), orders, dist.get_rank(), dist.get_world_size())


if __name__ == "__main__":
    main()
