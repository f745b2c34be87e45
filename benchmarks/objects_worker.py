"""A rank of benchmarks/objects: what torch programs do on CPUs, over gloo and hvdlite by turns.

Rank 0 writes the seconds of the slowest rank, by row and backend, into the file that is given.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import checkpoint

import hvdlite.torch.distributed

OUTPUT, ROUNDS = Path(sys.argv[1]), int(sys.argv[2])
#: By name, an object, and how many calls make a block.
OBJECTS: dict[str, tuple[Any, int]] = {
    "100 B": ({"epoch": 3, "path": "checkpoints/last"}, 40),
    "10 KB": (torch.ones(2_500), 40),
    "1 MB": (torch.ones(250_000), 10),
    "30 MB": (torch.ones(7_500_000), 1),
}
WIDTH = 512  # numbers that a layer adds up for one token: examples/torch_tensor_parallel.py


def object_calls(value: Any, group: Any) -> dict[str, Callable[[], None]]:
    rank, size = dist.get_rank(), dist.get_world_size()

    def all_gather() -> None:
        found: list[Any] = [None] * size
        dist.all_gather_object(found, value, group=group)

    def broadcast() -> None:
        given = [value if rank == 0 else None]
        dist.broadcast_object_list(given, 0, group=group)

    def gather() -> None:
        dist.gather_object(value, [None] * size if rank == 0 else None, 0, group=group)

    return {
        "all_gather_object": all_gather, "broadcast_object_list": broadcast,
        "gather_object": gather,
    }  # fmt: skip


def checkpoint_calls(folder: str, group: Any) -> dict[str, Callable[[], None]]:
    """Of a model of 60 tensors and 8 MB, in memory."""
    model = {f"layer.{i}": torch.ones(33_333) for i in range(60)}

    def save() -> None:
        checkpoint.save({"model": model}, checkpoint_id=folder, process_group=group)

    def load() -> None:
        checkpoint.load({"model": model}, checkpoint_id=folder, process_group=group)

    return {"save": save, "load": load}


def sum_calls(group: Any) -> dict[str, Callable[[], None]]:
    part = torch.zeros(WIDTH)

    def add() -> None:
        part.fill_(1.0)
        dist.all_reduce(part, group=group)

    return {"all_reduce": add}


def block(call: Callable[[], None], calls: int, group: Any) -> float:
    """Seconds per call."""
    dist.barrier(group)
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls


def main() -> None:
    hvdlite.torch.distributed.init()
    torch.set_num_threads(1)
    groups = {name: dist.new_group(backend=name) for name in ("gloo", "hvdlite")}
    shm = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=shm) as folder:
        names: list[Any] = [folder]
        dist.broadcast_object_list(names, 0)
        rows: dict[str, tuple[dict[str, Callable[[], None]], int]] = {}
        for backend, group in groups.items():
            calls = {
                (f"{what} of {size}", count): call
                for size, (value, count) in OBJECTS.items()
                for what, call in object_calls(value, group).items()
            }
            for what, call in checkpoint_calls(f"{names[0]}/{backend}", group).items():
                calls[f"checkpoint.{what} of 8 MB in 60 tensors", 1] = call
            for what, call in sum_calls(group).items():
                calls[f"{what} of 2 KB", 200] = call
            for (row, count), call in calls.items():
                rows.setdefault(row, ({}, count))[0][backend] = call
        found = {row: measure(ways, count, groups) for row, (ways, count) in rows.items()}
        if dist.get_rank() == 0:
            OUTPUT.write_text(json.dumps(found))
        dist.barrier()
    dist.destroy_process_group()


def measure(
    ways: dict[str, Callable[[], None]], count: int, groups: dict[str, Any]
) -> dict[str, list[float]]:
    mine: dict[str, list[float]] = {backend: [] for backend in ways}
    for number in range(ROUNDS + 1):
        for backend in list(ways)[:: 1 if number % 2 else -1]:
            seconds = block(ways[backend], count, groups[backend])
            if number:  # the first one warms up
                mine[backend].append(seconds)
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return {
        backend: [max(times) for times in zip(*(each[backend] for each in every), strict=True)]
        for backend in ways
    }


if __name__ == "__main__":
    main()
