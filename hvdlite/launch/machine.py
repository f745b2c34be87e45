"""What this machine offers to ranks: processors and GPUs, and each rank's share of them. Only
here(), processors_here(), shares_here() and host_identity() read the system; the rest is pure."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

# Libraries that use OpenMP, such as MKL and OpenBLAS, start this many threads.
THREADS = "OMP_NUM_THREADS"
_GPUS = "CUDA_VISIBLE_DEVICES"
_QUOTA = "/sys/fs/cgroup/cpu.max"


@dataclass(frozen=True)
class Machine:
    """What processes may use here."""

    cores: int
    gpus: int


def here(environ: Mapping[str, str]) -> Machine:
    try:
        with open(_QUOTA) as file:
            quota = file.read()
    except OSError:
        quota = ""
    there = sum(1 for name in os.listdir("/dev") if re.fullmatch(r"nvidia\d+", name))
    return Machine(cores(len(os.sched_getaffinity(0)), quota), gpus(there, environ.get(_GPUS)))


def cores(allowed: int, quota: str) -> int:
    """Returns how many of the `allowed` processors can run at a time. `quota`: a cgroup's cpu.max,
    such as `200000 100000` for two."""
    words = quota.split()
    if len(words) == 2 and all(word.isdecimal() and int(word) for word in words):
        return max(1, min(allowed, int(words[0]) // int(words[1])))
    return max(1, allowed)


def gpus(there: int, visible: str | None) -> int:
    """Returns how many GPUs a program sees. `visible`: CUDA_VISIBLE_DEVICES, numbers and names;
    CUDA uses those before the first that does not exist."""
    if visible is None:
        return there
    count = 0
    for word in (word.strip() for word in visible.split(",")):
        if not (word.startswith(("GPU-", "MIG-")) or (word.isdecimal() and int(word) < there)):
            break
        count += 1
    return count if there else 0


def count(wish: str, machine: Machine) -> tuple[int, str]:
    """Returns the number of ranks for `auto`, `gpu` or `cpu`, and what each rank gets. Raises
    ValueError if there is none of that."""
    if wish == "gpu" and not machine.gpus:
        raise ValueError(
            "there is no GPU on this host that a program could use (/dev/nvidia*, "
            "CUDA_VISIBLE_DEVICES)."
        )
    if wish != "cpu" and machine.gpus:
        return machine.gpus, "one for each GPU of this host"
    return machine.cores, "one for each core that may be used here" + (
        "" if wish == "cpu" else "; there is no GPU"
    )


BINDINGS = ("auto", "core", "none")  # --bind


@dataclass(frozen=True)
class Processor:
    """The number of a processor of the kernel. The threads of one core have the same core number in
    one package."""

    number: int
    package: int
    core: int


def processors_here() -> tuple[list[Processor], int]:
    """Returns the processors that this process may use, and how many this host has."""
    allowed = [
        Processor(each, _topology(each, "physical_package_id", 0), _topology(each, "core_id", each))
        for each in sorted(os.sched_getaffinity(0))
    ]
    return allowed, max(os.cpu_count() or 0, len(allowed))


def _topology(number: int, what: str, unknown: int) -> int:
    try:
        with open(f"/sys/devices/system/cpu/cpu{number}/topology/{what}") as file:
            return int(file.read())
    except (OSError, ValueError):
        return unknown


def shares_of_processors(processors: Sequence[Processor], ranks: int) -> list[list[int]]:
    """Returns a share for each rank: whole, neighbouring cores. Empty: there are more ranks than
    cores."""
    cores = _cores(processors)
    if ranks > len(cores):
        return []
    starts = [rank * len(cores) // ranks for rank in range(ranks + 1)]
    return [sum(cores[start:end], []) for start, end in itertools.pairwise(starts)]


def bind(wish: str, processors: Sequence[Processor], online: int, ranks: int) -> list[list[int]]:
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
    chosen = shares_of_processors(processors, ranks)
    if wish == "core" and not chosen:
        cores = len(_cores(processors))
        raise ValueError(
            f"--bind core: {ranks} ranks, but the job may use only {cores} "
            f"core{'s' * (cores != 1)} of this host; --bind none lets ranks share cores."
        )
    return chosen


def shares_here(wish: str, ranks: Collection[int]) -> dict[int, list[int]]:
    """Returns the processors of each of this host's ranks that is bound, as bind() says."""
    return dict(zip(ranks, bind(wish, *processors_here(), ranks=len(ranks)), strict=False))


def _cores(processors: Sequence[Processor]) -> list[list[int]]:
    """Returns the numbers of each core's threads, neighbours side by side."""
    ordered = sorted(processors, key=lambda each: (each.package, each.core, each.number))
    return [
        [each.number for each in threads]
        for _, threads in itertools.groupby(ordered, key=lambda each: (each.package, each.core))
    ]


def threads(environment: Mapping[str, str], cores: int, ranks: int) -> dict[str, str]:
    """Returns the variables that keep ranks of one host off each other's cores; nothing if the user
    has chosen."""
    if THREADS in environment or ranks < 2:
        return {}
    return {THREADS: str(max(1, cores // ranks))}


def about_threads(given: Mapping[str, str], cores: int, far: bool) -> str:
    """Returns a sentence. `given`: the result of threads() here; `far`: there are ranks on other
    hosts."""
    advice = f"-x {THREADS}=N gives them another number."
    if far:
        own = f" (here {given[THREADS]})" if given else ""
        return (
            f"{THREADS} is not set: each rank computes with its share of its host's cores as "
            f"threads{own}; {advice}"
        )
    number = given[THREADS]
    what = "1 thread" if number == "1" else f"{number} threads"
    share = f"its share of {cores} cores" if cores > 1 else "for there is 1 core"
    return f"{THREADS} is not set: each rank computes with {what}, {share}; {advice}"


def about_cores(ranks: int, cores: int) -> str:
    """Returns a sentence if this host has fewer cores than ranks; empty: there are enough."""
    if ranks <= cores:
        return ""
    if cores == 1:
        return f"{ranks} ranks take turns on the one core of this host."
    return (
        f"{ranks} ranks take turns on the {cores} cores of this host; -np {cores} gives each rank "
        "one of its own."
    )


def host_identity(environ: Mapping[str, str]) -> str:
    """Returns a text that is equal for processes that may share memory, by the same signs as the
    core's (csrc/rendezvous/host_id.cc).

    Two nodes of Ray, or executors of Spark, on one machine have the same one. Two containers of a
    machine do not.
    """
    configured = environ.get("HVDLITE_HOST_ID", "")
    if configured:
        return configured
    boot = network = ""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    with contextlib.suppress(OSError):
        network = str(os.stat("/proc/self/ns/net").st_ino)
    return f"{os.uname().nodename}#{boot}#{network}"
