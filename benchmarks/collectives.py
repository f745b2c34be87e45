"""Allreduce, every size and backend: blocks of about the same length, the backends taking turns
within each round."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import launch
import machine
import native
import summary
import workloads
from group import Group, Lost


@dataclass(frozen=True)
class Cell:
    """One row of a table."""

    op: str  # allreduce: one blocking call; one of workloads.STEPS: a list of gradients
    dtype: str
    bytes: int

    @property
    def order(self) -> dict[str, Any]:
        return {"op": self.op, "dtype": self.dtype, "bytes": self.bytes}


@dataclass(frozen=True)
class Plan:
    ranks: int
    cells: Sequence[Cell]
    backends: Sequence[launch.Backend]
    rounds: int
    block_seconds: float
    quiet_seconds: float  # how long to wait, before each block, for others to be quiet
    scheduling: str  # as worker.py has it
    pinned: bool = False  # whether each rank stays on a core of its own
    floor: bool = True  # whether there is a column of cpp/floor.cc


def cells(
    sizes: Sequence[int], dtypes: Sequence[str], steps: Sequence[str] = ("step",)
) -> list[Cell]:
    found = [Cell("allreduce", dtype, size) for dtype in dtypes for size in sizes]
    for step in steps:
        numbers = sum(workloads.numbers(shape) for _, shape in workloads.STEPS[step]())
        found += [Cell(step, dtype, numbers * workloads.WIDTH[dtype]) for dtype in dtypes]
    return found


class _Column:
    """One backend, and its blocks of each cell: one per round, None where there is none."""

    def __init__(self, backend: launch.Backend, plan: Plan) -> None:
        self.name = backend.name
        self.blocks: dict[Cell, list[dict[str, Any] | None]] = {cell: [] for cell in plan.cells}
        self.absent: dict[Cell, str] = {}  # why
        self._iterations: dict[Cell, int] = {}
        self._plan = plan
        self.group: Group | None = None
        self.scheduling = "none"
        try:
            self.group = Group(backend, plan.ranks, pinned=plan.pinned)
            self.scheduling = self.group.ask(op="schedule", wanted=plan.scheduling)[0]["scheduling"]
        except Lost as reason:
            self._give_up(str(reason))

    def measure(self, cell: Cell) -> None:
        block = self._try(cell) if self.group is not None and cell not in self.absent else None
        self.blocks[cell].append(block)

    def _try(self, cell: Cell) -> dict[str, Any] | None:
        assert self.group is not None
        try:
            if cell not in self._iterations:
                trial = self._block(cell, 2, 5)
                if trial is not None:
                    wanted = self._plan.block_seconds / trial["seconds"]
                    self._iterations[cell] = max(3, min(100_000, round(wanted)))
            return None if cell in self.absent else self._block(cell, 1, self._iterations[cell])
        except Lost as reason:
            self._give_up(str(reason))
            return None

    def _block(self, cell: Cell, warmup: int, iterations: int) -> dict[str, Any] | None:
        assert self.group is not None
        limit = 4 * self._plan.block_seconds
        block = self.group.block(**cell.order, warmup=warmup, iterations=iterations, limit=limit)
        if "seconds" in block:
            return block
        self.absent[cell] = block.get("unsupported") or block["error"]
        return None

    def _give_up(self, reason: str) -> None:
        print(reason, file=sys.stderr)
        for cell in self.blocks:
            self.absent.setdefault(cell, reason)
        if self.group is not None:
            self.group.close()
        self.group = None


class _Floor:
    """The column of cpp/floor.cc: the same algorithm with nothing around it. Only where each rank
    has a core."""

    name = "floor"

    def __init__(self, plan: Plan) -> None:
        self.blocks: dict[Cell, list[dict[str, Any] | None]] = {cell: [] for cell in plan.cells}
        self.absent: dict[Cell, str] = {}
        self._plan = plan
        possible = plan.floor and plan.ranks <= (os.cpu_count() or 1)
        self._program = native.Program("floor", str(plan.ranks)) if possible else None
        self._iterations: dict[Cell, int] = {}

    def measure(self, cell: Cell) -> None:
        block = None
        if self._program is not None and cell.op == "allreduce" and cell.dtype == "float32":
            with machine.Foreign() as foreign:
                line = f"{cell.bytes} {self._iterations.get(cell, 1)} {self._plan.scheduling}"
                answer = (self._program.ask(line) or "").split()
                foreign.ours(float(answer[1]) if answer else 0.0)
            if answer:
                seconds = float(answer[0])
                self._iterations[cell] = max(
                    1, min(10_000, round(self._plan.block_seconds / 15 / seconds))
                )
                block = {"seconds": seconds, "foreign": foreign.share, "iterations": 1}
                block |= {"user": 0.0, "system": 0.0, "switches": 0, "faults": 0}
        self.blocks[cell].append(block)

    def close(self) -> None:
        if self._program is not None:
            self._program.close()


def measure(plan: Plan) -> dict[str, Any]:
    probe = native.Program("probe")
    floor = _Floor(plan)
    columns = [_Column(backend, plan) for backend in plan.backends]
    probes = []
    try:
        for number in range(plan.rounds):
            for cell in plan.cells:
                for column in columns:
                    machine.wait_for_quiet(plan.quiet_seconds)
                    column.measure(cell)
                floor.measure(cell)
            probes.append(json.loads(probe.ask() or "{}"))
            print(
                f"{plan.ranks} ranks: round {number + 1} of {plan.rounds}; {probes[-1]}",
                file=sys.stderr,
            )
    finally:
        probe.close()
        floor.close()
        for column in columns:
            if column.group is not None:
                column.group.close()
    return {
        "ranks": plan.ranks,
        "cores": os.cpu_count(),
        "rounds": plan.rounds,
        "block_seconds": plan.block_seconds,
        "pinned": plan.pinned,
        "scheduling": next((c.scheduling for c in columns if c.scheduling != "none"), "none"),
        "probes": probes,
        "rows": [_row(cell, [*columns, floor]) for cell in plan.cells],
    }


def _row(cell: Cell, columns: Sequence[_Column | _Floor]) -> dict[str, Any]:
    """What is shown of a cell: each backend's times, and everybody's time over that of the
    first."""
    found: dict[str, Any] = {**cell.order, "backends": {}, "ratios": {}}
    for column in columns:
        blocks = column.blocks[cell]
        if any(block is not None for block in blocks):
            found["backends"][column.name] = summary.times(blocks) | {
                "seconds": [None if b is None else float(f"{b['seconds']:.4g}") for b in blocks]
            }
            ratio = summary.ratio(blocks, columns[0].blocks[cell])
            if ratio is not None:
                found["ratios"][column.name] = ratio
        else:
            found["backends"][column.name] = {"absent": column.absent.get(cell, "not measured")}
    return found
