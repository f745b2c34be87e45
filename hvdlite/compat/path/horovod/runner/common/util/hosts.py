"""horovod.runner.common.util.hosts: places ranks on hosts, for programs that start processes
themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from hvdlite.launch import plan
from hvdlite.launch.hosts import Host, parse_hostfile

__all__ = [
    "INVALID_SLOT_INFO", "HostInfo", "SlotInfo", "get_host_assignments", "parse_host_files",
    "parse_hosts", "parse_hosts_and_slots",
]  # fmt: skip


@dataclass
class HostInfo:
    """A host, and how many processes may run there."""

    hostname: str
    slots: int

    @staticmethod
    def from_string(host_string: str) -> HostInfo:
        """ "node1:4"."""
        if not re.fullmatch(r"[\w.-]+:[0-9]+", host_string.strip()):
            raise ValueError(
                "Invalid host input, expected hostname:slots, as in worker-0:2, not "
                f"{host_string!r}."
            )
        hostname, _, slots = host_string.strip().rpartition(":")
        return HostInfo(hostname, int(slots))


@dataclass
class SlotInfo:
    """One process: its rank, and its place."""

    hostname: str
    rank: int
    local_rank: int
    cross_rank: int
    size: int | None = None
    local_size: int | None = None
    cross_size: int | None = None

    def to_response_string(self) -> str:
        numbers = (
            self.rank,
            self.size,
            self.local_rank,
            self.local_size,
            self.cross_rank,
            self.cross_size,
        )
        return ",".join(str(number) for number in numbers)

    @staticmethod
    def from_response_string(response_string: str) -> SlotInfo:
        """The reverse of to_response_string(); the host is not in it."""
        rank, size, local_rank, local_size, cross_rank, cross_size = map(
            int, response_string.split(",")
        )
        return SlotInfo("", rank, local_rank, cross_rank, size, local_size, cross_size)

    def __hash__(self) -> int:
        return hash(astuple(self))


INVALID_SLOT_INFO = SlotInfo("", -1, -1, -1, -1, -1, -1)


def parse_hosts(hosts_string: str) -> list[HostInfo]:
    """The hosts of "node1:4,node2:4"."""
    return [HostInfo.from_string(host) for host in hosts_string.split(",")]


def parse_hosts_and_slots(hosts: str) -> tuple[list[str], dict[str, int]]:
    """Returns their names, and the slots by name."""
    infos = parse_hosts(hosts)
    return [info.hostname for info in infos], {info.hostname: info.slots for info in infos}


def parse_host_files(filename: str) -> str:
    """The hosts of a hostfile as "node1:4,node2:4"."""
    with open(filename, encoding="utf-8") as file:
        return ",".join(
            f"{host.name}:{host.slots}" for host in parse_hostfile(file.read(), filename, None)
        )


def get_host_assignments(
    hosts: Sequence[HostInfo], min_num_proc: int, max_num_proc: int | None = None
) -> list[SlotInfo]:
    """Returns the ranks. They fill the hosts in order: all slots, or `max_num_proc` of them. Raises
    ValueError if there are fewer than `min_num_proc` slots."""
    slots = sum(host.slots for host in hosts)
    if slots < min_num_proc:
        raise ValueError(f"{min_num_proc} processes are more than the {slots} slots of the hosts")
    count = slots if max_num_proc is None else min(slots, max_num_proc)
    assigned = plan.assign([Host(host.hostname, host.slots) for host in hosts], count)
    return [
        SlotInfo(s.host, s.rank, s.local_rank, s.cross_rank, s.size, s.local_size, s.cross_size)
        for s in assigned
    ]
