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
    """All of them, the loopback's as well."""
    return {"127.0.0.1", "::1", *addresses.of_this_machine()}


def get_local_host_intfs() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def resolve_host_address(host_name: str) -> str | None:
    """An IPv4 address of the host; None: the name means nothing here."""
    try:
        return socket.gethostbyname(host_name)
    except OSError:
        return None


def filter_local_addresses(all_host_names: Iterable[str]) -> list[str]:
    """Those that are not this machine."""
    return [name for name in all_host_names if not addresses.is_of_this_machine(name)]


def get_driver_ip(nics: Collection[str] | None) -> str:
    """An address of this machine by which others reach it, on one of these interfaces if there are any."""
    found = addresses.of_this_machine([nic for nic in nics or () if nic != "lo"])
    return found[0] if found else "127.0.0.1"
