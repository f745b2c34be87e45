"""Training with torch: hvdlite beside DDP over gloo and beside no communication at all, in one run,
taking turns.

benchmarks/train                    docs/benchmarks/torch.md and docs/benchmarks/data/torch.json
benchmarks/train --rounds 2 --output /tmp/here
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import launch
import machine
import training_options
import training_report
from group import Group
from launch import Backend
from record import Record

_HVDLITE = (launch.HVDLITERUN, "-np", "{ranks}")
WAYS = (
    Backend("none", "none", "each rank trains for itself", (), launch.KEEP_MEMORY),
    Backend(
        "ddp",
        "ddp",
        "DistributedDataParallel over gloo, gradient_as_bucket_view=True",
        (),
        launch.KEEP_MEMORY,
    ),
    Backend(
        "ddp over hvdlite",
        "ddp",
        "the same over hvdlite",
        (),
        launch.KEEP_MEMORY | {"BENCHMARK_BACKEND": "hvdlite"},
    ),
    Backend(
        "ddp alone",
        "ddp",
        "the same over a backend that sends nothing",
        (),
        launch.KEEP_MEMORY | {"BENCHMARK_BACKEND": "nothing"},
    ),
    Backend("hvdlite", "hvdlite", "hvd.DistributedOptimizer", _HVDLITE, launch.KEEP_MEMORY),
    Backend("lock step", "lockstep", "a barrier in each step", _HVDLITE, launch.KEEP_MEMORY),
    Backend(
        "copies",
        "hvdlite",
        "the same, gradients in private memory",
        _HVDLITE,
        launch.KEEP_MEMORY | {"HVDLITE_GRADIENT_POOL": "0"},
    ),
)
# Steps of a block: about half a second without communication.
STEPS = {"resnet50": 20, "mlp": 6, "conv": 15, "transformer": 4}


# The speed of a process depends on where its memory happens to lie, so all start anew now and then.
ROUNDS_OF_A_START = 3


def measure(
    ranks: int, rounds: int, quiet: float, names: list[str], scheduling: str
) -> dict[str, Any]:
    blocks: dict[str, dict[str, list[Any]]] = {
        name: {way.name: [] for way in WAYS} for name in names
    }
    found = scheduling
    for first in range(0, rounds, ROUNDS_OF_A_START):
        groups = [Group(way, ranks, "training_worker.py") for way in WAYS]
        try:
            for group in groups:
                found = group.ask(op="schedule", wanted=scheduling)[0]["scheduling"]
            for number in range(first, min(first + ROUNDS_OF_A_START, rounds)):
                for name in names:
                    for group in groups:
                        blocks[name][group.name].append(train(group, name, quiet, number == first))
                print(f"round {number + 1} of {rounds}", file=sys.stderr)
        finally:
            for group in groups:
                group.close()
    return {
        "ranks": ranks,
        "rounds": rounds,
        "cores": os.cpu_count(),
        "scheduling": found,
        "blocks": blocks,
    }


def train(group: Group, name: str, quiet: float, is_first: bool) -> Any:
    machine.wait_for_quiet(quiet)
    warmup = 4 if is_first else 1
    block = group.block(op="train", workload=name, warmup=warmup, steps=STEPS[name])
    if "error" in block:
        raise SystemExit(f"{group.name}, {name}: {block['error']}")
    return block


def memory(ranks: int, name: str = "resnet50") -> dict[str, Any]:
    """The peak of a fresh rank that trains nothing but this; the shared segment counts once for all
    ranks."""
    found = {}
    for way in WAYS:
        with Group(way, ranks, "training_worker.py") as group:
            group.block(op="train", workload=name, warmup=2, steps=5)
            answers = group.ask(op="memory")
        shared = max(a["shared"] for a in answers) if way.peer == "hvdlite" else 0
        own = statistics.mean(a["peak"] for a in answers) - shared
        found[way.name] = own + shared / ranks
    return {"workload": name, "kib_per_rank": found}


def overhead() -> dict[str, float]:
    """See training_overhead.py."""
    program = Path(__file__).with_name("training_overhead.py")
    runs = [
        json.loads(
            subprocess.run([sys.executable, str(program)], capture_output=True, check=True).stdout
        )
        for _ in range(5)
    ]
    return {name: min(run[name] for run in runs) for name in runs[0]}


def main() -> None:
    parser = training_options.parser(__doc__)
    parser.add_argument("--workloads", nargs="+", default=list(STEPS), choices=list(STEPS))
    given = parser.parse_args()
    machine.take_turns()
    record = Record(given.output, "torch.json")
    record.results |= measure(
        given.ranks, given.rounds, given.quiet, given.workloads, given.scheduling
    )
    record.results |= {"memory": memory(given.ranks), "overhead": overhead()}
    notes = Path(__file__).with_name("training_notes.md").read_text()
    record.publish("torch.md", training_report.write(record.results, notes))
    record.publish("notes/torch.md", training_report.targets_of(record.results, notes))


if __name__ == "__main__":
    main()
