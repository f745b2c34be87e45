"""One rank that trains inside graphs in one way, on one framework: "none-jax" or
"hvdlite-tensorflow", for example.

python graphs_worker.py WAY SOCKET FILE
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import channel
import graphs_models
import rank


class Trainer:
    def __init__(self, way: str, framework: str) -> None:
        self._way, self._framework = way, framework
        self._made: dict[str, Any] = {}

    def _make(self, name: str) -> Any:
        if name == "gradients":
            return graphs_models.GRADIENTS[self._framework](self._way)
        return graphs_models.Fit(name, self._way)

    def train(self, order: channel.Message) -> channel.Message:
        name, steps = order["workload"], order["steps"]
        if name not in self._made:
            self._made[name] = self._make(name)
        made = self._made[name]
        if name == "gradients":
            rank.timed(made, order["warmup"])
            return rank.block(lambda: rank.timed(made, steps))
        made.seconds(order["warmup"])
        return rank.block(lambda: [made.seconds(steps)])

    def first(self, order: channel.Message) -> channel.Message:
        """A model of its own, and its first step: what tracing and compiling take."""
        made = self._make(order["workload"])
        start = time.perf_counter()
        made() if order["workload"] == "gradients" else made.seconds(1)
        return {"seconds": time.perf_counter() - start}

    def growth(self, order: channel.Message) -> channel.Message:
        """How much memory of its own the process has more after so many steps, in bytes for
        each."""
        made = self._made["gradients"]
        rank.timed(made, order["steps"] // 2)
        before = _own_memory()
        rank.timed(made, order["steps"])
        return {"bytes": (_own_memory() - before) / order["steps"]}


def _own_memory() -> int:
    lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    return next(int(line[1]) << 10 for line in lines if line[0] == "RssAnon:")


def _one_thread(framework: str) -> None:
    if framework == "tensorflow":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    elif framework == "torch":
        import torch

        torch.set_num_threads(1)
    else:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"


def main() -> None:
    rank.prefer()
    way, framework = sys.argv[1].split("-")
    os.environ |= {"KERAS_BACKEND": framework, "TF_CPP_MIN_LOG_LEVEL": "3"}
    _one_thread(framework)
    orders = channel.connect(sys.argv[2])
    number, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if way == "hvdlite":
        import hvdlite as hvd

        hvd.init()
        number, size = hvd.rank(), hvd.size()
    rank.obey(Trainer(way, framework), orders, number, size)


if __name__ == "__main__":
    main()
