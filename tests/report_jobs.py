"""Imaginary jobs for `hvdlite report`: the records that are lines of `--metrics-file`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LAYERS = [
    *(
        f"layer{stage}.{block}.conv{n}"
        for stage in (1, 2, 3, 4)
        for block in (0, 1)
        for n in (1, 2)
    ),
    "fc.weight",
]
BEGAN = 1_790_000_000.0


@dataclass
class Imagined:
    """A job whose numbers are known. `waits`: the share of the time in which operations wait for
    that rank. `fails`: a share of the job after which the ranks change."""

    ranks: int = 4
    seconds: float = 600.0
    every: float = 10.0
    step: float = 0.1
    waits: Mapping[int, float] = field(default_factory=dict)
    moving: float = 0.3
    hosts: Sequence[str] = ("localhost",)
    names: Sequence[str] = tuple(LAYERS)
    heavy: str = ""  # a tensor that takes half of the communication
    fewer_from: float | None = None
    details: bool = True
    taken: Mapping[str, Any] = field(default_factory=dict)  # by other programs, in its second half

    def records(self) -> Iterator[dict[str, Any]]:
        for number in range(int(self.seconds / self.every) + 1):
            elapsed = number * self.every
            fewer = self.fewer_from is not None and elapsed >= self.fewer_from * self.seconds
            count = self.ranks - 1 if fewer else self.ranks
            record = {
                "time": BEGAN + elapsed, "began": BEGAN, "world_changes": int(fewer),
                "ranks": [self._rank(rank, elapsed) for rank in range(count)],
            }  # fmt: skip
            if fewer:
                record["heading"] = "generation 2"
            if self.taken and 2 * elapsed > self.seconds:
                record["taken"] = [self.taken]
            if self.details:
                record["details"] = self._details(elapsed)
            yield record

    def _rank(self, rank: int, elapsed: float) -> dict[str, Any]:
        late = sum(share for other, share in self.waits.items() if other != rank)
        wave = 1 + 0.15 * math.sin(elapsed / 40 + rank / 3)
        steps = 1 / (self.step * (1 + 0.06 * math.sin(elapsed / 25)))
        operations = int(elapsed / self.step) * len(self.names)
        return {
            "rank": rank, "host": self.hosts[rank * len(self.hosts) // self.ranks],
            "steps_per_second": steps if elapsed else None,
            "operations_per_second": steps * len(self.names), "bytes_per_second": 1e8 * steps,
            "waiting": min(1.0, (late + 0.02) * wave), "late_seconds": 0.001, "cores": 1.3,
            "straggler": rank in self.waits, "note": "", "memory_bytes": 8.1e8 + 1e4 * elapsed,
            "counters": {
                "operations": operations, "failures": 0, "bytes": operations * 1_000_000,
                "batches": operations // 4, "batches_fused": operations // 8, "batches_on_gpu": 0,
                "requests_in_full": len(self.names) if elapsed else 0,
                "requests_by_slot": max(0, operations - len(self.names)),
                "seconds_negotiating": elapsed * (late + 0.02),
                "seconds_moving": elapsed * self.moving,
                "seconds_waited_for_rank": {
                    str(each): elapsed * self.waits.get(each, 0.002) for each in range(self.ranks)
                } if rank == 0 else {},
                "background_wakes": 0, "moves_to_another_processor": 0,
                "carried_by": {
                    "shm stream": {"allreduce": operations // 4}, "net ring": {"allreduce": 7},
                },
            },
        }  # fmt: skip

    def _details(self, elapsed: float) -> dict[str, Any]:
        steps = int(elapsed / self.step)
        moving = elapsed * self.moving
        sizes = {name: 1e6 * (1 + index % 4) for index, name in enumerate(self.names)}
        shares = {name: size / sum(sizes.values()) for name, size in sizes.items()}
        if self.heavy:
            shares = {name: share / 2 for name, share in shares.items()}
            shares[self.heavy] += 0.5
        tensors = [
            {
                "name": f"allreduce.{name}", "operations": steps, "bytes": steps * sizes[name],
                "seconds": moving * shares[name], "waited": 0.004 * steps,
            }
            for name in sorted(shares, key=lambda name: -shares[name])
        ]  # fmt: skip
        size = steps * sum(sizes.values())
        return {
            "operations": steps * len(self.names), "bytes": size, "seconds": moving,
            "tensors": tensors[:30], "ways": {"shm": 0.75 * size, "net": 0.25 * size},
            "dtypes": {"float32": size}, "fusion": {"1": steps, "5 to 16": 2 * steps},
            "overlap": {"steps": elapsed, "moving": moving, "hidden": 0.8 * moving},
            "versions": {"hvdlite": "0.1.0", "python": "3.11.9", "torch": "2.13.0"},
            "knobs": {"HVDLITE_OVERLAP": "on"}, "rank": 0,
        }  # fmt: skip
