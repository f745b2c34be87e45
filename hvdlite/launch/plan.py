"""Places ranks on hosts, and builds the environment that tells them their place. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hvdlite.launch.hosts import Host
from hvdlite.rendezvous.addresses import Address, join_address
from hvdlite.rendezvous.documents import rank_numbers

# Far above any job: a typing error is refused before it fills the memory.
MOST_RANKS = 1 << 16


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


def assign(hosts: Sequence[Host], processes: int | None = None) -> list[Slot]:
    """Returns one slot per process, host by host. If there are fewer processes than slots, the last
    slots stay empty."""
    available = sum(host.slots for host in hosts)
    size = available if processes is None else processes
    if size < 1:
        raise ValueError(f"-np {size} is not allowed: expected at least 1 process.")
    if size > available:
        raise ValueError(
            f"-np {size} is more than the {available} slots of the hosts: give them more (-H "
            "host:slots), or start fewer processes."
        )
    if size > MOST_RANKS:
        raise ValueError(f"-np {size} is not allowed: a job has {MOST_RANKS} ranks at most.")
    places = [(host.name, slot) for host in hosts for slot in range(host.slots)][:size]
    numbers = rank_numbers([(rank, host, slot) for rank, (host, slot) in enumerate(places)])
    return [Slot(host, **vars(numbers[rank])) for rank, (host, _) in enumerate(places)]


# Variables of the launcher's own machine or login, which would be wrong on another.
_STAYS = re.compile(
    r"BASH_FUNC_.*|OLDPWD|PWD|HOSTNAME|.*CUDA_VISIBLE_DEVICES|SSH_.*|XDG_(RUNTIME_DIR|SESSION_.*|SEAT|VTNR)"
    r"|DBUS_SESSION_BUS_ADDRESS|DISPLAY|XAUTHORITY|TMUX.*|STY|TTY|_"
)
# A job that is started from within another one must not see the outer one's identity.
_OUTER = {
    "HVDLITE_SECRET", "HVDLITE_SECRET_FD", "HVDLITE_RENDEZVOUS", "HVDLITE_ELASTIC",
    "HVDLITE_MEMBER", "HVDLITE_MEMBER_TOKEN", "HVDLITE_MEMBER_MEETS", "HVDLITE_SLOT",
}  # fmt: skip


def job_environment(environ: Mapping[str, str], knobs: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of all ranks: the caller's, with the chosen knobs."""
    shared = {name: value for name, value in environ.items() if name not in _OUTER}
    shared.setdefault("PYTHONUNBUFFERED", "1")
    return {**shared, **knobs}


def without_mpi(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of ranks that no MPI starts: with what Horovod sets for programs that
    look, unless the user has chosen."""
    if any(environment.get(f"{prefix}_CPU_OPERATIONS") for prefix in ("HVDLITE", "HOROVOD")):
        return dict(environment)
    return {**environment, "HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"}


def travelling(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the part of it that goes to another host."""
    return {name: value for name, value in environment.items() if not _STAYS.fullmatch(name)}


def rendezvous_environment(address: Address) -> dict[str, str]:
    """Returns where the ranks meet, as seen from their host."""
    return {
        "HVDLITE_RENDEZVOUS": join_address(*address),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": address[0],
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(address[1]),
    }


def torch_environment(slots: Sequence[Slot], run: str) -> dict[int, dict[str, str]]:
    """Returns by rank the variables of torchrun, except where the ranks meet. `run`: a name that no
    other job has."""
    hosts = list(dict.fromkeys(slot.host for slot in slots))
    return {
        slot.rank: {
            **torch_place(
                slot.rank, slot.size, slot.local_rank, slot.local_size, hosts.index(slot.host),
                len(hosts),
            ),
            "HVDLITE_TORCH_ENV": "1",
            "ROLE_NAME": "default",
            "TORCHELASTIC_RUN_ID": run,
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
            "TORCHELASTIC_USE_AGENT_STORE": "False",  # rank 0 serves the store
        }
        for slot in slots
    }  # fmt: skip


def torch_place(
    rank: int, size: int, local_rank: int, local_size: int, host: int, hosts: int
) -> dict[str, str]:
    """Returns the variables of torchrun that are a rank's numbers."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_size),
        "GROUP_RANK": str(host),
        "GROUP_WORLD_SIZE": str(hosts),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(size),
    }


def torch_rendezvous(host: str, port: int) -> dict[str, str]:
    """Returns where torch's ranks meet."""
    return {"MASTER_ADDR": host, "MASTER_PORT": str(port)}


def torch_host(first: str) -> str:
    """Returns how the other ranks reach `first`, the host of rank 0, by its name in -H."""
    return first.rpartition("@")[2].strip("[]")


def rank_environment(slot: Slot, several_hosts: bool) -> dict[str, str]:
    """Returns what only this rank gets."""
    own = numbers(**{name: number for name, number in vars(slot).items() if name != "host"})
    own["HOROVOD_HOSTNAME"] = slot.host
    if several_hosts:
        # `localhost:2,127.0.0.1:2` acts as two hosts, and its ranks have to believe it, too.
        own["HVDLITE_HOST_ID"] = slot.host
    return own


def numbers(**by_name: int) -> dict[str, str]:
    """A rank's numbers. Programs read Horovod's names, so it sets those as well."""
    return {
        f"{prefix}_{name.upper()}": str(number)
        for prefix in ("HVDLITE", "HOROVOD")
        for name, number in by_name.items()
    }
