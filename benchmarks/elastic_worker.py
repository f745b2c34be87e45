"""A rank of benchmarks/elastic: trains, ends itself where the plan says so, and notes times.

    elastic_worker.py hvdlite|torchrun PLAN

PLAN is a file of JSON, and beside it lie the ranks' notes. One death is made in each generation
that has all ranks, after `steps` of its steps, until there were `deaths`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
from elastic_plan import FOLDER, PLAN, die_if_due, note, over

CHECKPOINT = FOLDER / "checkpoint"
CHECKPOINT_STEPS = 10


def net() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    width = PLAN["width"]
    layers = [torch.nn.Linear(width, width, bias=False) for _ in range(PLAN["layers"])]
    model = torch.nn.Sequential(*layers)
    return model, torch.optim.SGD(model.parameters(), lr=1e-3)


def learn(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.ones(1, PLAN["width"])).sum().backward()
    optimizer.step()


class Generation:
    """What a rank notes of one: its first operation, its first steps and its last one."""

    def __init__(self, number: int, rank: int, size: int) -> None:
        self.place = {"generation": number, "rank": rank, "size": size}
        self.steps = 0
        self._took: list[float] = []
        note("operation", **self.place)

    def turns(self) -> Iterator[None]:
        """Each turn of the loop is a step."""
        while True:
            die_if_due(self.place["generation"], self.place["rank"], self.place["size"], self.steps)
            began = time.monotonic()
            yield
            self.steps += 1
            self._took.append(time.monotonic() - began)
            if self.steps == 1:
                note("first step", **self.place)

    def end(self, last: float) -> None:
        note("end", **self.place, last=last, took=sorted(self._took)[len(self._took) // 2])


def with_hvdlite() -> None:
    import hvdlite.torch as hvd

    hvd.init()
    model, optimizer = net()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model, optimizer, position=0)
    _time_transfers(state)

    @hvd.elastic.run
    def train(state: Any) -> None:
        hvd.allreduce(torch.ones(1), name="first")
        generation = Generation(hvd.elastic.generation(), hvd.rank(), hvd.size())
        last = time.monotonic()
        try:
            for _ in generation.turns():
                learn(model, optimizer)
                enough = over() and hvd.size() == PLAN["ranks"] and generation.steps >= 2
                if hvd.allreduce(torch.tensor(float(enough)), op=hvd.Sum, name="o") == hvd.size():
                    return
                state.position += 1
                last = time.monotonic()
                state.step()
        finally:
            if generation.steps:
                generation.end(last)

    train(state)


def _time_transfers(state: Any) -> None:
    receive = state._receive
    size = sum(p.numel() * p.element_size() for p in state.model.parameters())

    def timed(root: int) -> None:
        began = time.monotonic()
        receive(root)
        note("transfer", seconds=time.monotonic() - began, bytes=size)

    state._receive = timed


def with_torchrun() -> None:
    import torch.distributed as dist

    # Restarted ranks have been seen to wait for each other for good: torchrun then tries again.
    dist.init_process_group("gloo", timeout=timedelta(seconds=PLAN["gloo_seconds"]))
    model, optimizer = net()
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    position = 0
    if CHECKPOINT.exists():
        position, weights = torch.load(CHECKPOINT)
        model.load_state_dict(weights)
    dist.all_reduce(torch.ones(1))
    number = int(os.environ["TORCHELASTIC_RESTART_COUNT"]) + 1
    generation = Generation(number, dist.get_rank(), dist.get_world_size())
    for _ in generation.turns():
        learn(ddp, optimizer)
        enough = torch.tensor(float(over() and generation.steps >= 2))
        dist.all_reduce(enough)
        position += 1
        if enough == dist.get_world_size():
            break
        if position % CHECKPOINT_STEPS == 0 and dist.get_rank() == 0:
            torch.save((position, model.state_dict()), f"{CHECKPOINT}.new")
            os.replace(f"{CHECKPOINT}.new", CHECKPOINT)
    generation.end(time.monotonic())
    dist.destroy_process_group()


def costs() -> None:
    """What boundaries cost, where nothing dies."""
    import hvdlite.torch as hvd

    hvd.init()
    model, optimizer = net()
    norms = [torch.nn.BatchNorm1d(PLAN["features"]) for _ in range(PLAN["norms"])]
    small = torch.nn.Sequential(*norms)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    states = {
        "commit": hvd.elastic.TorchState(model, optimizer, position=0, epoch=0),
        "step": hvd.elastic.TorchState(small, position=0, epoch=0),
    }
    buffers = list(small.buffers())
    copies = [buffer.clone() for buffer in buffers]
    boundaries = {
        "commit": (states["commit"].commit, PLAN["commits"]),
        "step": (states["step"].step, PLAN["step_turns"]),
        "copy": (lambda: torch._foreach_copy_(copies, buffers), PLAN["step_turns"]),
    }

    @hvd.elastic.run
    def measure(state: Any) -> None:
        for name, (work, turns) in boundaries.items():
            took = []
            for _ in range(turns):
                hvd.barrier()
                began = time.perf_counter()
                work()
                took.append(time.perf_counter() - began)
            note(name, seconds=took, rank=hvd.rank())

    measure(states["commit"])


{"hvdlite": with_hvdlite, "torchrun": with_torchrun, "costs": costs}[sys.argv[1]]()
