"""Chooses the processors of each rank of a host (--bind). Only here() reads the system; the rest is
pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

WISHES = ("auto", "core", "none")


@dataclass(frozen=True)
class Processor:
    """The number of a processor of the kernel. The threads of one core have the same core number in
    one package."""

    number: int
    package: int
    core: int


def here() -> tuple[list[Processor], int]:
    """Returns the processors that this process may use, and how many this host has."""
    allowed = [
        Processor(
            number,
            _topology(number, "physical_package_id", 0),
            _topology(number, "core_id", number),
        )
        for number in sorted(os.sched_getaffinity(0))
    ]
    return allowed, max(os.cpu_count() or 0, len(allowed))


def _topology(number: int, what: str, unknown: int) -> int:
    try:
        with open(f"/sys/devices/system/cpu/cpu{number}/topology/{what}") as file:
            return int(file.read())
    except (OSError, ValueError):
        return unknown


def shares(processors: Sequence[Processor], ranks: int) -> list[list[int]]:
    """Returns a share for each rank: whole, neighbouring cores. Empty: there are more ranks than
    cores."""
    cores = _cores(processors)
    if ranks > len(cores):
        return []
    return [
        [
            number
            for core in cores[rank * len(cores) // ranks : (rank + 1) * len(cores) // ranks]
            for number in core
        ]
        for rank in range(ranks)
    ]


def decide(wish: str, processors: Sequence[Processor], online: int, ranks: int) -> list[list[int]]:
    """Returns each rank's processors, or nothing: the kernel chooses. Raises ValueError if `core`
    is not possible.

    `auto` binds if this job was given its processors by Slurm, a container's cpuset or taskset. If
    the job may use all of the host's processors, another job may use them as well, and both would
    bind to the same ones.
    """
    if wish == "none" or not ranks:
        return []
    if wish == "auto" and (len(processors) >= online or ranks < 2):
        return []
    chosen = shares(processors, ranks)
    if wish == "core" and not chosen:
        cores = len(_cores(processors))
        raise ValueError(
            f"--bind core: {ranks} ranks, but the job may use only {cores} "
            f"core{'s' * (cores != 1)} of this host; --bind none lets ranks share cores."
        )
    return chosen


def _cores(processors: Sequence[Processor]) -> list[list[int]]:
    """Returns the numbers of each core's threads, neighbours side by side."""
    ordered = sorted(processors, key=lambda each: (each.package, each.core, each.number))
    return [
        [each.number for each in threads]
        for _, threads in groupby(ordered, key=lambda each: (each.package, each.core))
    ]
