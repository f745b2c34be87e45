"""One rank that trains in one way: without communication ("none"), with DDP over gloo ("ddp"), or with hvdlite.

python training_worker.py WAY SOCKET FILE
"""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import channel
import torch
import training_models


class _Way:
    """How gradients come together."""

    def __init__(self) -> None:
        self.rank, self.size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))

    def wrap(self, model: torch.nn.Module) -> tuple[Any, Any, Callable[[Any], None]]:
        """The model to call, its optimizer, and what ends the reduction where no step follows."""
        return model, torch.optim.SGD(model.parameters(), lr=1e-3), lambda optimizer: None


class _Ddp(_Way):
    def __init__(self) -> None:
        super().__init__()
        import torch.distributed as dist

        dist.init_process_group("gloo")

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


WAYS: dict[str, type[_Way]] = {"none": _Way, "ddp": _Ddp, "hvdlite": _Hvdlite}


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

    def schedule(self, order: channel.Message) -> channel.Message:
        """As worker.py's: "fifo" as if nobody else used the cores, where that is permitted. Answers what was."""
        if order["wanted"] == "fifo":
            with contextlib.suppress(PermissionError):
                # Who hangs must not keep the machine: after so long without a sleep the kernel ends it.
                resource.setrlimit(resource.RLIMIT_RTTIME, (10_000_000, 10_000_000))
                for thread in os.listdir("/proc/self/task"):
                    os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(10))
                return {"scheduling": "SCHED_FIFO"}
        return {"scheduling": f"nice {os.getpriority(os.PRIO_PROCESS, 0)}"}

    def train(self, order: channel.Message) -> channel.Message:
        name = order["workload"]
        if name not in self._steps:
            self._steps[name] = self._step(name)
        step = self._steps[name]
        for _ in range(order["warmup"]):
            step()
        seconds = []
        before = resource.getrusage(resource.RUSAGE_SELF)
        began = time.perf_counter()
        for _ in range(order["steps"]):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "seconds": statistics.median(seconds),
            "each": seconds,
            "elapsed": time.perf_counter() - began,
            "iterations": order["steps"],
            "user": after.ru_utime - before.ru_utime,
            "system": after.ru_stime - before.ru_stime,
            "switches": after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw,
            "faults": after.ru_minflt - before.ru_minflt,
        }

    def memory(self, order: channel.Message) -> channel.Message:
        """The most this process has had, in KiB: its own, and what it shares with the others."""
        lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
        found = {line[0]: int(line[1]) for line in lines if line[0] in ("VmHWM:", "RssShmem:")}
        return {"peak": found["VmHWM:"], "shared": found["RssShmem:"]}


def main() -> None:
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -18)  # before everybody else's builds, where we may
    torch.set_num_threads(1)
    orders = channel.connect(sys.argv[2])
    way = WAYS[sys.argv[1]]()
    trainer = Trainer(way)
    orders.send({"rank": way.rank, "size": way.size, "pid": os.getpid()})
    try:
        while (order := orders.receive())["op"] != "stop":
            spent = time.process_time()
            try:
                answer = getattr(trainer, order["op"])(order)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            orders.send(answer | {"spent": time.process_time() - spent})
    except (EOFError, OSError):
        pass
    os._exit(0)  # the coordinator ends all ranks at once: nobody says goodbye


if __name__ == "__main__":
    main()
