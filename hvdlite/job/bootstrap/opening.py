"""The store in rank 0's own process. It stays until the process ends, so init() after shutdown()
finds it again."""

from __future__ import annotations

from hvdlite.rendezvous import StoreServer, addresses

# Protects the store from the garbage collector.
_open: list[StoreServer] = []


def open_store(secret: bytes, on_one_host: bool, port: int = 0, private: bool = False) -> int:
    """Opens the store of this process's job; returns its port. Listens on loopback, and also for
    other hosts unless all ranks share a host. `private`: refuses ranks at public addresses.

    Raises OSError if it cannot listen there.
    """
    server = StoreServer.reached(secret, not on_one_host, port, rank=0, private=private)
    _open.append(server.start())
    return server.address[1]


def addresses_of(
    port: int, on_one_host: bool, interfaces: list[str]
) -> tuple[tuple[str, int], ...]:
    """Returns the addresses at which the others may reach it, best first. Raises ValueError if a
    requested interface does not exist here."""
    hosts = [] if on_one_host else addresses.of_this_machine(interfaces)
    # Loopback serves the ranks on this machine if it has no network. On other machines no process
    # answers there.
    return tuple((host, port) for host in (*hosts, "127.0.0.1"))
