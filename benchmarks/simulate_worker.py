"""One rank of a job that simulate.py measures. It prints when each turn began and ended.

simulate_worker.py '{"rank": 0, "size": 2, "address": "10.78.0.1", "port": 4711, ...}'
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Timed = Callable[[], object]
Plan = dict[str, Any]


def now() -> float:
    """Of a clock that all ranks of this machine read."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - now()))


class Hvdlite:
    def __init__(self, plan: Plan) -> None:
        import hvdlite as hvd

        self._hvd = hvd
        self._dtype = plan.get("dtype", "float32")
        hvd.init(
            rank=plan["rank"],
            size=plan["size"],
            rendezvous=f"{plan['address']}:{plan['port']}",
            secret=plan["secret"],
        )

    def _array(self, size: int) -> np.ndarray:
        dtype = np.dtype(self._dtype)
        return np.ones(size // dtype.itemsize, dtype)

    def meet(self) -> None:
        self._hvd.barrier()

    def allreduce(self, size: int) -> Timed:
        array, hvd = self._array(size), self._hvd
        return lambda: hvd.allreduce(array, op=hvd.Sum, name=f"allreduce {size}")

    def allgather(self, size: int) -> Timed:
        array, hvd = self._array(size), self._hvd
        return lambda: hvd.allgather(array, name=f"allgather {size}")

    def step(self, gradients: Sequence[tuple[str, float, float]], seconds: float) -> Timed:
        """A step of training that sleeps instead of computing. `gradients`: name, bytes, and the
        second in which it is ready."""
        hvd = self._hvd
        arrays = [(name, self._array(int(size)), ready) for name, size, ready in gradients]

        def run() -> None:
            began = now()
            handles = []
            for name, array, ready in arrays:
                sleep_until(began + ready)
                handles.append(hvd.allreduce_async(array, op=hvd.Sum, name=name))
            sleep_until(began + seconds)
            for handle in handles:
                hvd.synchronize(handle)

        return run

    def end(self) -> None:
        self._hvd.shutdown()


class Gloo:
    def __init__(self, plan: Plan) -> None:
        import torch
        import torch.distributed

        self._torch = torch
        torch.distributed.init_process_group(
            "gloo",
            init_method=f"tcp://{plan['address']}:{plan['port']}",
            rank=plan["rank"],
            world_size=plan["size"],
        )

    def meet(self) -> None:
        self._torch.distributed.barrier()

    def allreduce(self, size: int) -> Timed:
        tensor = self._torch.ones(size // 4)
        return lambda: self._torch.distributed.all_reduce(tensor)

    def end(self) -> None:
        self._torch.distributed.destroy_process_group()


# Ranks that have met begin at the next multiple of this.
_EVERY = 0.1
_AHEAD = 0.02


def _together() -> None:
    """Waits for the moment at which all ranks begin."""
    sleep_until(math.ceil((now() + _AHEAD) / _EVERY) * _EVERY)


def main() -> None:
    plan = json.loads(sys.argv[1])
    library = {"hvdlite": Hvdlite, "gloo": Gloo}[plan["library"]](plan)
    for arguments in plan["cases"]:
        timed = getattr(library, plan["what"])(*arguments)
        timed()
        turns = []
        for _ in range(plan["repeats"]):
            if plan["apart"]:
                library.meet()
                _together()
            began = now()
            timed()
            turns.append((began, now()))
        print(json.dumps(turns), flush=True)
    library.meet()
    library.end()


if __name__ == "__main__":
    main()
