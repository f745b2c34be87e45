"""One rank of a job that compression_network.py measures. Rank 0 prints a line for each method.

compression_network_worker.py '{"rank": 0, "size": 2, "address": "10.78.0.1", ...}'
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import workloads

#: So many steps follow one another that take less than so many seconds.
_SHORT_ONES, _SHORT = 5, 0.6
_SENT = Path("/sys/class/net/eth0/statistics/tx_bytes")


def _auto(compression: Any) -> Any:
    return compression.auto([compression.int8(), compression.sign(), compression.topk(0.001)])


#: Each makes a compression of hvd.Compression.
METHODS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda compression: compression.none,
    "fp16": lambda compression: compression.fp16,
    "int8": lambda compression: compression.int8(),
    "sign": lambda compression: compression.sign(),
    "topk 0.1 %": lambda compression: compression.topk(0.001),
    "dgc 0.1 %": lambda compression: compression.dgc(0.001, momentum=0.9),
    "auto": lambda compression: compression.auto(),
    "auto of int8, sign, topk": _auto,
}


class Training:
    """The gradients of a ResNet-50 are there from the beginning, so that a step is the way of the
    gradients and nothing else. `memory`: weights and gradients, by name; all methods share them."""

    def __init__(self, hvd: Any, torch: Any, memory: dict[str, Any], compression: Any) -> None:
        self.compression = compression
        self._hvd = hvd
        self._torch = torch
        self._drawn = torch.randn(1 << 20, generator=torch.Generator().manual_seed(hvd.rank()))
        self._gradients = [gradient for _, gradient in memory.values()]
        parameters = {name: torch.nn.Parameter(weight) for name, (weight, _) in memory.items()}
        for name, parameter in parameters.items():
            parameter.grad = memory[name][1]
        sgd = torch.optim.SGD(parameters.values(), lr=0.0)
        self._optimizer = hvd.DistributedOptimizer(sgd, parameters.items(), compression=compression)

    def warm_up(self) -> None:
        """The memory is made, and a choice."""
        self.step()
        if hasattr(self.compression, "said"):
            while not self.compression.said:
                self.step()
            self.step()

    def steps(self) -> list[tuple[float, int]]:
        """Some, if they are short."""
        first = self.step()
        return [first, *(self.step() for _ in range(_SHORT_ONES - 1 if first[0] < _SHORT else 0))]

    def step(self) -> tuple[float, int]:
        """The seconds that it took on the slowest rank, and the bytes that this one has sent."""
        hvd = self._hvd
        for gradient in self._gradients:
            for part in gradient.view(-1).split(self._drawn.numel()):
                part.copy_(self._drawn[: part.numel()])
        hvd.barrier()
        sent, began = int(_SENT.read_text()), time.perf_counter()
        self._optimizer.synchronize()
        took = self._torch.tensor(time.perf_counter() - began, dtype=self._torch.float64)
        sent = int(_SENT.read_text()) - sent
        return float(hvd.allreduce(took, op=hvd.Max, name="took")), sent


def main() -> None:
    plan = json.loads(sys.argv[1])
    import torch

    import hvdlite.torch as hvd

    torch.set_num_threads(1)
    hvd.init(
        rank=plan["rank"],
        size=plan["size"],
        rendezvous=f"{plan['address']}:{plan['port']}",
        secret=plan["secret"],
    )
    memory = {
        name: (torch.zeros(shape), torch.empty(shape)) for name, shape in workloads.gradients()
    }
    trainings = {
        method: Training(hvd, torch, memory, METHODS[method](hvd.Compression))
        for method in plan["methods"]
    }
    for training in trainings.values():
        training.warm_up()
    # By turns, forth and back: what else the machine does meets all of them.
    turns = [
        {method: trainings[method].steps() for method in plan["methods"][:: -1 if turn % 2 else 1]}
        for turn in range(plan["turns"])
    ]
    for method, training in trainings.items():
        seconds, sent = zip(*(step for turn in turns for step in turn[method]), strict=True)
        row = {"method": method, "seconds": seconds, "sent": min(sent)}
        row |= {"said": training.compression.said} if method.startswith("auto") else {}
        if hvd.rank() == 0:
            print(json.dumps(row), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
