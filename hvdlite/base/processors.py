"""Whether programs outside of the job use the cores of its ranks.

A rank reports counters of the kernel (here()). The launcher has those of all ranks, and compares
what the cores did with what the ranks did (taken(), pure).
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
# What others use is told if the cores have nothing to spare, and others have a good part of them.
_FULL = 0.9
_A_GOOD_PART = 0.25
_PRESSURE = 0.2  # the share of the time in which something waited for a core


@dataclass(frozen=True)
class Usage:
    """A rank's cores within some time. `cpus` and `machine` say which cores these are; `pressure`:
    None if the kernel does not tell."""

    host: str
    machine: str
    cpus: str
    cores: int
    own: float  # used by the rank and its children, in cores
    busy: float  # used by everything
    pressure: float | None = None


@dataclass(frozen=True)
class Taken:
    """A machine that other programs use. `each`: what a rank gets; `others`: what they use, both in
    cores. `host`: empty if the job has no other."""

    host: str
    ranks: int
    cores: int
    each: float
    others: float

    @property
    def sentence(self) -> str:
        where = f" on {self.host}" if self.host else ""
        gets = f"ranks{where} get" if self.ranks > 1 else f"rank{where} gets"
        each = " each" if self.ranks > 1 else ""
        whole = f"{self.cores} cores" if self.cores > 1 else "core"
        return (
            f"The {gets} {100 * self.each:.0f} % of a core{each}: other programs use "
            f"{self.others:.1f} of the host's {whole}."
        )


def taken(ranks: Iterable[Usage]) -> list[Taken]:
    """Returns the machines that others use, the busiest first."""
    groups: dict[tuple[str, str], list[Usage]] = {}
    for rank in ranks:
        groups.setdefault((rank.machine, rank.cpus), []).append(rank)
    found: dict[str, Taken] = {}
    for (machine, _), members in groups.items():
        group = _of_the_same_cores(members)
        if group is None:
            continue
        old = found.get(machine)
        found[machine] = group if old is None else _together(old, group)
    several = len({machine for machine, _ in groups}) > 1
    told = [each if several else replace(each, host="") for each in found.values()]
    return sorted(told, key=lambda each: -each.others / each.cores)


def _of_the_same_cores(members: Sequence[Usage]) -> Taken | None:
    cores = members[0].cores
    busy = sum(rank.busy for rank in members) / len(members)
    own = sum(rank.own for rank in members)
    pressure = max((rank.pressure for rank in members if rank.pressure is not None), default=1.0)
    others = min(busy, float(cores)) - own
    if busy < _FULL * cores or others < _A_GOOD_PART * cores or pressure < _PRESSURE:
        return None
    host = ", ".join(dict.fromkeys(rank.host for rank in members))
    return Taken(host, len(members), cores, own / len(members), others)


def _together(first: Taken, second: Taken) -> Taken:
    ranks = first.ranks + second.ranks
    each = (first.each * first.ranks + second.each * second.ranks) / ranks
    hosts = ", ".join(dict.fromkeys([*first.host.split(", "), *second.host.split(", ")]))
    return Taken(hosts, ranks, first.cores + second.cores, each, first.others + second.others)


def is_report(value: Any) -> bool:
    """Whether it may be what here() returns: whatever knows the job's secret can send another
    thing. Pure."""
    if not isinstance(value, dict):
        return False
    if not value:
        return True
    texts = all(isinstance(value.get(name), str) for name in ("machine", "cpus"))
    numbers = [value.get("busy"), value.get("children"), value.get("pressure") or 0.0]
    cores = value.get("cores")
    return (
        texts
        and isinstance(cores, int)
        and cores > 0
        and all(isinstance(each, (int, float)) and abs(each) < 1e15 for each in numbers)
    )


def between(host: str, first: Any, last: Any, seconds: float) -> Usage | None:
    """Returns a rank's usage by two of its reports; None: they do not tell. `own` lacks what the
    process itself has used."""
    if not first or not last or first["cpus"] != last["cpus"] or seconds <= 0:
        return None
    pressure = (
        None
        if first["pressure"] is None or last["pressure"] is None
        else (last["pressure"] - first["pressure"]) / seconds
    )
    return Usage(
        host,
        last["machine"],
        last["cpus"],
        last["cores"],
        max(0.0, last["children"] - first["children"]) / seconds,
        (last["busy"] - first["busy"]) / seconds,
        pressure,
    )


def here() -> dict[str, Any]:
    """Returns counters in seconds: of the cores that this process may use, and of its children.
    Empty: the kernel does not tell."""
    cpus = os.sched_getaffinity(0)
    try:
        with open("/proc/stat") as file:
            busy = busy_seconds(file.read(), cpus)
        with open("/proc/sys/kernel/random/boot_id") as file:
            machine = file.read().strip()
    except (OSError, ValueError):
        return {}
    waited = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "machine": machine,
        "cpus": f"{sum(1 << cpu for cpu in cpus):x}",
        "cores": len(cpus),
        "busy": busy,
        "children": waited.ru_utime + waited.ru_stime + _seconds_of_children(os.getpid()),
        "pressure": _pressure(),
    }


def busy_seconds(stat: str, cpus: Iterable[int]) -> float:
    """Returns what those cores have done since the boot, by /proc/stat. Pure. Raises ValueError if
    a core is missing."""
    wanted = {f"cpu{cpu}" for cpu in cpus}
    ticks = 0
    for line in stat.splitlines():
        name, *numbers = line.split()
        if name in wanted:
            wanted.remove(name)
            user, nice, system, _idle, _waiting, interrupts, soft = map(int, numbers[:7])
            ticks += user + nice + system + interrupts + soft
    if wanted:
        raise ValueError(f"/proc/stat lacks {min(wanted)}")
    return ticks / _TICKS


def _pressure() -> float | None:
    """Returns the seconds in which something waited for a core since the boot."""
    try:
        with open("/proc/pressure/cpu") as file:
            some = file.readline().split()
        return int(some[-1].partition("total=")[2]) / 1e6
    except (OSError, ValueError, IndexError):
        return None


def _seconds_of_children(process: int) -> float:
    """Of those that run, such as torch's loaders of data, and of their children."""
    total = 0.0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with (
                contextlib.suppress(OSError, ValueError, IndexError),
                open(f"/proc/{process}/task/{thread}/children") as file,
            ):
                for child in map(int, file.read().split()):
                    with open(f"/proc/{child}/stat") as stat:
                        # The command in brackets may be any text.
                        times = stat.read().rpartition(")")[2].split()[11:15]
                    total += sum(map(int, times)) / _TICKS + _seconds_of_children(child)
    return total
