"""The store in rank 0's own process. It stays until the process ends, so that shutdown() and init() find it again."""

from __future__ import annotations

from hvdlite.rendezvous import StoreServer, addresses

# Kept from the garbage collector.
_open: list[StoreServer] = []


def open_store(secret: bytes, on_one_host: bool, port: int = 0) -> int:
    """Opens the store of this process' job; returns its port. On loopback, or where all ranks share a host on that only.

    OSError: it cannot listen there.
    """
    server = StoreServer.reached(secret, not on_one_host, port, rank=0)
    _open.append(server.start())
    return server.address[1]


def addresses_of(port: int, on_one_host: bool, interfaces: list[str]) -> tuple[tuple[str, int], ...]:
    """Where the others may try to reach it, best first. ValueError: an interface that was asked for is not here."""
    hosts = [] if on_one_host else addresses.of_this_machine(interfaces)
    # Loopback serves the ranks beside this one on a machine without a network; elsewhere no process answers there.
    return tuple((host, port) for host in (*hosts, "127.0.0.1"))
