"""What the ranks of elastic_soak run: the state counts how often each sample was trained on."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import hvdlite as hvd

LENGTH = int(sys.argv[1])
STEP_SECONDS = 0.001
NOTES = os.open("notes", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

for path in Path().glob("crash.*"):
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        raise RuntimeError(f"{path} was meant for the next newcomer")

hvd.init()
cursor = hvd.elastic.Cursor(LENGTH, batch_size=4, tail="carry", seed=3)
state = hvd.elastic.ObjectState(
    cursor=cursor,
    counts=np.zeros(LENGTH, np.int64),
    weights=np.zeros(100_000),
    steps=0,
)


def note() -> None:
    """This rank has completed an operation of its generation."""
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    found = {
        "at": time.monotonic(),
        "generation": hvd.elastic.generation(),
        "rank": hvd.rank(),
        "size": hvd.size(),
        "pid": os.getpid(),
        "kib": int(status["VmRSS"].split()[0]),
        "threads": int(status["Threads"]),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }
    os.write(NOTES, (json.dumps(found) + "\n").encode())


def step(indices: Any) -> bool:
    """Whether all ranks have seen that it is enough."""
    mine = np.zeros(LENGTH + 1, np.int64)
    np.add.at(mine, indices, 1)
    mine[-1] = os.path.exists("enough")
    time.sleep(STEP_SECONDS)  # span: what a step computes
    of_all = hvd.allreduce(mine, op=hvd.Sum, name="counts")
    state.weights = state.weights + hvd.allreduce(np.ones(100_000), name="gradient")
    state.counts = state.counts + of_all[:-1]
    state.steps += 1
    state.step()
    return bool(of_all[-1] == hvd.size())


@hvd.elastic.run
def train(state: Any) -> None:
    hvd.barrier()
    note()
    while True:
        for indices in cursor:
            if step(indices):
                return


train(state)
assert (state.weights == state.steps).all(), (state.weights, state.steps)
said = {
    "counts": state.counts.tolist(), "epoch": cursor.epoch, "sample": cursor.sample,
    "size": hvd.size(), "steps": state.steps,
}  # fmt: skip
Path(f"end.{os.getpid()}").write_text(json.dumps(said))
