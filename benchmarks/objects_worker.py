"""A rank of benchmarks/objects: what torch programs do on CPUs, over gloo and hvdlite by turns.

Rank 0 writes the seconds of the slowest rank, by row and backend, into the file that is given, and
checkpoints lie beside it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
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


def calls(group: Any, folder: Path) -> dict[str, tuple[int, Callable[[], None]]]:
    """By row, how many calls make a block, and the call. `folder`: for checkpoints."""
    rank, size = dist.get_rank(), dist.get_world_size()
    found: dict[str, tuple[int, Callable[[], None]]] = {}

    def all_gather(value: Any) -> None:
        dist.all_gather_object([None] * size, value, group=group)

    def broadcast(value: Any) -> None:
        dist.broadcast_object_list([value if rank == 0 else None], 0, group=group)

    def gather(value: Any) -> None:
        dist.gather_object(value, [None] * size if rank == 0 else None, 0, group=group)

    for text, (value, count) in OBJECTS.items():
        found[f"all_gather_object of {text}"] = count, partial(all_gather, value)
        found[f"broadcast_object_list of {text}"] = count, partial(broadcast, value)
        found[f"gather_object of {text}"] = count, partial(gather, value)

    model = {f"layer.{i}": torch.ones(33_333) for i in range(60)}
    there: dict[str, Any] = {"checkpoint_id": str(folder), "process_group": group}
    for function in (checkpoint.save, checkpoint.load):
        call = partial(function, {"model": model}, **there)
        found[f"checkpoint.{function.__name__} of 8 MB in 60 tensors"] = 1, call

    part = torch.zeros(WIDTH)

    def add() -> None:
        part.fill_(1.0)
        dist.all_reduce(part, group=group)

    found["all_reduce of 2 KB"] = 200, add
    return found


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
    of = {name: calls(group, OUTPUT.parent / name) for name, group in groups.items()}
    found = {
        row: measure({name: of[name][row][1] for name in groups}, count, groups)
        for row, (count, _) in of["gloo"].items()
    }
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
