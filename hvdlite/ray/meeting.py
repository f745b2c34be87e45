"""The store where the ranks of one job meet, in the driver's process."""

from __future__ import annotations

import os
from collections.abc import Collection

from hvdlite.launch import machine, secret
from hvdlite.rendezvous import addresses
from hvdlite.rendezvous.addresses import join_address
from hvdlite.rendezvous.server import StoreServer


def variables(port: int, everywhere: bool, timeout_s: float) -> dict[str, str]:
    """Returns where the store of this process is, and how long ranks have to meet. `everywhere`:
    it listens on all addresses of this machine."""
    mine = addresses.of_this_machine() if everywhere else []
    return {
        "HVDLITE_RENDEZVOUS": ",".join(join_address(each, port) for each in [*mine, "127.0.0.1"]),
        "HVDLITE_START_TIMEOUT": f"{timeout_s:g}",
    }


class Meeting:
    """`hosts`: the identities of the ranks' hosts. If all are this one, the store listens on
    loopback only."""

    def __init__(self, hosts: Collection[str], timeout_s: float) -> None:
        everywhere = any(each != machine.host_identity(os.environ) for each in hosts)
        self.key = secret.create()
        self._store = StoreServer.reached(self.key, everywhere).start()
        self.environment = variables(self._store.address[1], everywhere, timeout_s)

    def call_off(self, why: str) -> None:
        """Ranks that wait in `hvd.init()`, or call it later, get a PeerLostError."""
        self._store.call_off("init", why)

    def close(self) -> None:
        self._store.close()
