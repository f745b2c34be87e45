"""Who is which rank on which host, and the environment that tells it so. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Host:
    name: str
    slots: int


@dataclass(frozen=True)
class Slot:
    """One process to start."""

    host: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int


def parse_hosts(text: str) -> list[Host]:
    """`a:2,b:4`; a name alone has one slot."""
    hosts: list[Host] = []
    for entry in text.split(","):
        match = re.fullmatch(r"\s*([\w.-]+)(?::([0-9]+))?\s*", entry)
        if match is None or int(match.group(2) or 1) < 1:
            raise ValueError(
                f"Invalid host input {entry.strip()!r}: expected host:slots, separated by commas, as in localhost:4."
            )
        hosts.append(Host(match.group(1), int(match.group(2) or 1)))
    twice = {host.name for host in hosts if [h.name for h in hosts].count(host.name) > 1}
    if twice:
        raise ValueError(f"Host {min(twice)!r} is listed twice: give it all its slots in one entry.")
    return hosts


def require_local(hosts: Sequence[Host], names_of_this_host: Collection[str]) -> None:
    """ValueError when a host is another machine."""
    for host in hosts:
        if host.name not in names_of_this_host:
            raise ValueError(
                f"Host {host.name!r} is another machine, and this version starts processes on this one only; "
                "several machines come with a later version."
            )


def assign(hosts: Sequence[Host], processes: int | None = None) -> list[Slot]:
    """One slot per process, host by host. Fewer processes than slots leave the last slots empty."""
    available = sum(host.slots for host in hosts)
    size = available if processes is None else processes
    if size < 1:
        raise ValueError(f"-np {size} is not allowed: expected at least 1 process.")
    if size > available:
        raise ValueError(f"Requested more processes ({size}) than there are available slots ({available}).")
    taken: list[tuple[str, int]] = []
    free = size
    for host in hosts:
        if free > 0:
            taken.append((host.name, min(host.slots, free)))
            free -= host.slots
    slots: list[Slot] = []
    for index, (name, local_size) in enumerate(taken):
        for local_rank in range(local_size):
            # As Horovod: "across" are the ranks with the same local rank on the hosts that have it.
            peers = [i for i, (_, count) in enumerate(taken) if count > local_rank]
            slots.append(Slot(name, len(slots), size, local_rank, local_size, peers.index(index), len(peers)))
    return slots


def shared_environment(
    environ: Mapping[str, str], address: tuple[str, int], secret: Mapping[str, str], knobs: Mapping[str, str]
) -> dict[str, str]:
    """What all ranks get: the caller's environment, the chosen knobs, where to meet, how to prove oneself."""
    host, port = address
    # A job that was started from within another one must not see the outer one's identity.
    ours = ("HVDLITE_SECRET", "HVDLITE_SECRET_FD", "HVDLITE_RENDEZVOUS")
    shared = {name: value for name, value in environ.items() if name not in ours}
    shared.setdefault("PYTHONUNBUFFERED", "1")
    shared |= knobs
    shared |= secret
    shared |= {
        "HVDLITE_RENDEZVOUS": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }
    return shared


def rank_environment(slot: Slot, several_hosts: bool) -> dict[str, str]:
    """What only this rank gets. Programs read Horovod's names, so those are set as well."""
    numbers = {
        "RANK": slot.rank,
        "SIZE": slot.size,
        "LOCAL_RANK": slot.local_rank,
        "LOCAL_SIZE": slot.local_size,
        "CROSS_RANK": slot.cross_rank,
        "CROSS_SIZE": slot.cross_size,
    }
    own = {f"{prefix}_{name}": str(n) for prefix in ("HVDLITE", "HOROVOD") for name, n in numbers.items()}
    own["HOROVOD_HOSTNAME"] = slot.host
    if several_hosts:
        # `localhost:2,127.0.0.1:2` pretends to be two hosts: its ranks have to believe it, too.
        own["HVDLITE_HOST_ID"] = slot.host
    return own
