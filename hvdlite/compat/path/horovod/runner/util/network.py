"""horovod.runner.util.network: which names and addresses mean this machine."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable

from hvdlite.rendezvous import addresses

__all__ = [
    "filter_local_addresses", "get_driver_ip", "get_local_host_addresses", "get_local_host_intfs",
    "resolve_host_address",
]  # fmt: skip


def get_local_host_addresses() -> set[str]:
    """Returns all of them, including loopback addresses."""
    return {"127.0.0.1", "::1", *addresses.of_this_machine()}


def get_local_host_intfs() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def resolve_host_address(host_name: str) -> str | None:
    """Returns an IPv4 address of the host; None: the name does not resolve here."""
    try:
        return socket.gethostbyname(host_name)
    except OSError:
        return None


def filter_local_addresses(all_host_names: Iterable[str]) -> list[str]:
    """Returns the addresses that are not this machine's."""
    return [name for name in all_host_names if not addresses.is_of_this_machine(name)]


def get_driver_ip(nics: Collection[str] | None) -> str:
    """Returns an address by which other machines reach this one, on one of these interfaces if any
    are given."""
    found = addresses.of_this_machine([nic for nic in nics or () if nic != "lo"])
    return found[0] if found else "127.0.0.1"
