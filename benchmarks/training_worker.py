"""One rank that trains in one way: without communication ("none"), with DDP over gloo ("ddp"), or
with hvdlite.

python training_worker.py WAY SOCKET FILE
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import channel
import rank
import torch
import training_models


class _Way:
    """How gradients come together."""

    def __init__(self) -> None:
        self.rank, self.size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))

    def wrap(self, model: torch.nn.Module) -> tuple[Any, Any, Callable[[Any], None]]:
        """The model to call, its optimizer, and what ends the reduction where no step follows."""
        return model, torch.optim.SGD(model.parameters(), lr=1e-3), lambda optimizer: None


# What makes a backend known to torch.
MODULES = {"hvdlite": "hvdlite.torch.distributed", "nothing": "nothing_backend"}


class _Ddp(_Way):
    def __init__(self) -> None:
        super().__init__()
        import torch.distributed as dist

        over = os.environ.get("BENCHMARK_BACKEND", "gloo")
        if over in MODULES:
            importlib.import_module(MODULES[over])
        dist.init_process_group(over)

    def wrap(self, model: torch.nn.Module) -> tuple[Any, Any, Callable[[Any], None]]:
        wrapped = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        return wrapped, torch.optim.SGD(model.parameters(), lr=1e-3), lambda optimizer: None


class _Hvdlite(_Way):
    def __init__(self) -> None:
        import hvdlite.torch as hvd

        hvd.init()
        self.rank, self.size = hvd.rank(), hvd.size()

    def wrap(self, model: torch.nn.Module) -> tuple[Any, Any, Callable[[Any], None]]:
        import hvdlite.torch as hvd

        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        return model, optimizer, lambda optimizer: optimizer.synchronize()


class _LockStep(_Hvdlite):
    """All ranks reach each optimizer's step together, and nothing is communicated."""

    def wrap(self, model: torch.nn.Module) -> tuple[Any, Any, Callable[[Any], None]]:
        import hvdlite.torch as hvd

        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        optimizer.register_step_pre_hook(lambda *_: hvd.barrier())
        return model, optimizer, lambda optimizer: hvd.barrier()


WAYS: dict[str, type[_Way]] = {
    "none": _Way,
    "ddp": _Ddp,
    "hvdlite": _Hvdlite,
    "lockstep": _LockStep,
}


class Trainer:
    def __init__(self, way: _Way) -> None:
        self._way = way
        self._steps: dict[str, Callable[[], None]] = {}

    def _step(self, name: str) -> Callable[[], None]:
        make, data, loss_of = training_models.WORKLOADS[name]
        torch.manual_seed(0)
        model, optimizer, finish = self._way.wrap(make())
        x = data()

        def step() -> None:
            optimizer.zero_grad()
            loss_of(model(x)).backward()
            if name == "resnet50":
                finish(optimizer)  # the way of the gradients alone
            else:
                optimizer.step()

        return step

    def train(self, order: channel.Message) -> channel.Message:
        name = order["workload"]
        if name not in self._steps:
            self._steps[name] = self._step(name)
        step = self._steps[name]
        rank.timed(step, order["warmup"])
        return rank.block(lambda: rank.timed(step, order["steps"]))

    def memory(self, order: channel.Message) -> channel.Message:
        """The most this process has had, in KiB: its own, and what it shares with the others."""
        lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
        found = {line[0]: int(line[1]) for line in lines if line[0] in ("VmHWM:", "RssShmem:")}
        return {"peak": found["VmHWM:"], "shared": found["RssShmem:"]}


def main() -> None:
    rank.prefer()
    torch.set_num_threads(1)
    orders = channel.connect(sys.argv[2])
    way = WAYS[sys.argv[1]]()
    rank.obey(Trainer(way), orders, way.rank, way.size)


if __name__ == "__main__":
    main()
