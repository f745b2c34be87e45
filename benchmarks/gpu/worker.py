"""One rank on the GPU: lines of JSON with the milliseconds of a step, in one way.

    python worker.py plain | ddp | hvdlite | raw | batch  [--device cpu] [--hosts]

plain: a step of training by torch alone. ddp: by torch's DistributedDataParallel over NCCL.
hvdlite: by DistributedOptimizer. raw: one torch.distributed.all_reduce over NCCL of as much as a
ResNet-50 has gradients, in one tensor. batch: the same gradients, in 161 tensors, by one grouped
allreduce of hvdlite; and one tensor of 4 bytes each. --hosts: NCCL is to believe each rank on a
host of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import workloads  # noqa: E402


class Gpt(nn.Module):
    """GPT-2's small brother: enough arithmetic for a step to take as long as in earnest."""

    def __init__(self, layers: int, width: int, words: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, dropout=0.0, batch_first=True
        )
        self.words = nn.Embedding(words, width)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.out(self.layers(self.words(x)))
        return nn.functional.cross_entropy(logits.flatten(0, 1), x.flatten())


def milliseconds(step: Callable[[], Any], device: torch.device) -> list[float]:
    """Of several series: the time of a step, the device's work included."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    def series(times: int) -> float:
        wait()
        began = time.perf_counter()
        for _ in range(times):
            step()
        wait()
        return (time.perf_counter() - began) / times

    series(3)
    times = 10 if device.type == "cuda" else 2  # the same on all ranks
    return [1000 * series(times) for _ in range(7)]


def training(way: str, device: torch.device) -> dict[str, list[float]]:
    torch.manual_seed(0)
    small = device.type == "cpu"
    model: nn.Module = Gpt(2, 64, 100) if small else Gpt(6, 512, 16384)
    model.to(device)
    x = torch.randint(0, 100, (2, 16) if small else (16, 256), device=device)
    if way == "ddp":
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=1e-3)
    if way == "hvdlite":
        import hvdlite.torch as hvd

        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()

    return {"step": milliseconds(step, device)}


def batches(way: str, device: torch.device) -> dict[str, list[float]]:
    gradients = [torch.ones(shape, device=device) for _, shape in workloads.gradients()]
    tiny = torch.ones(1, device=device)
    if way == "raw":
        import torch.distributed as dist

        flat = torch.cat([gradient.flatten() for gradient in gradients])
        return {
            "resnet50": milliseconds(lambda: dist.all_reduce(flat), device),
            "4 bytes": milliseconds(lambda: dist.all_reduce(tiny), device),
        }
    import hvdlite.torch as hvd

    return {
        # With a name, as gradients have: the group is known from the step before.
        "resnet50": milliseconds(
            lambda: hvd.grouped_allreduce_(gradients, op=hvd.Average, name="gradients"), device
        ),
        "4 bytes": milliseconds(lambda: hvd.allreduce_(tiny, op=hvd.Sum, name="tiny"), device),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=["plain", "ddp", "hvdlite", "raw", "batch"])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--hosts", action="store_true")
    options = parser.parse_args()
    device = torch.device(options.device, 0) if options.device == "cuda" else torch.device("cpu")
    rank = 0
    if options.way in ("hvdlite", "batch"):
        import hvdlite.torch as hvd

        if options.hosts:  # before the core reads it
            os.environ["NCCL_HOSTID"] = f"host-of-rank-{os.environ['HVDLITE_RANK']}"
        hvd.init()
        rank = hvd.rank()
    elif options.way in ("ddp", "raw"):
        import torch.distributed as dist

        if options.device == "cuda":
            torch.cuda.set_device(0)
        if options.hosts:
            os.environ["NCCL_HOSTID"] = f"host-of-rank-{os.environ['RANK']}"
        dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
        rank = int(os.environ["RANK"])
    found = (batches if options.way in ("raw", "batch") else training)(options.way, device)
    if rank == 0:
        print(json.dumps({"way": options.way, "milliseconds": found}), flush=True)


if __name__ == "__main__":
    main()
