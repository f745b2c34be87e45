"""Numbers the ranks of a job, and has the store where they connect."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection

from hvdlite.launch import machine, secret
from hvdlite.ray import rank_order
from hvdlite.ray.rank_order import ActorIdentity
from hvdlite.ray.settings import MiniSettings
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


class DriverStore:
    """The store where the ranks of one job connect, in the driver's process.

    `hosts`: the identities of the ranks' hosts. If all are this one, the store listens on
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


class Coordinator:
    """`register` each rank, then `finalize_registration()`, then `establish_rendezvous()`."""

    def __init__(self, settings: MiniSettings) -> None:
        self.settings = settings
        self._ranks: dict[int, ActorIdentity] = {}
        self._store: DriverStore | None = None

    @property
    def world_size(self) -> int:
        return len(self._ranks)

    @property
    def hostnames(self) -> set[str]:
        return {each.name for each in self._ranks.values()}

    @property
    def node_id_by_rank(self) -> dict[int, str]:
        return {rank: each.node for rank, each in self._ranks.items()}

    @property
    def node_id_string(self) -> str:
        """The number of ranks by node: "node:2,other:1"."""
        return ",".join(f"{node}:{n}" for node, n in Counter(self.node_id_by_rank.values()).items())

    @property
    def store(self) -> DriverStore | None:
        """The store, while it is open."""
        return self._store

    def register(self, hostname: str, node_id: str, world_rank: int) -> None:
        """Ranks with one `node_id` are on one host."""
        self.found(world_rank, ActorIdentity(node_id, node_id, hostname))

    def found(self, world_rank: int, found: ActorIdentity) -> None:
        """Like register(), with all that an actor reports."""
        self._ranks[world_rank] = found

    def finalize_registration(self) -> dict[int, dict[str, str]]:
        """Returns by rank the variables with its numbers."""
        ranks = [self._ranks[rank] for rank in range(len(self._ranks))]
        return dict(enumerate(rank_order.environments(ranks)))

    def establish_rendezvous(self) -> dict[str, str]:
        """Opens the store of a job. Returns the variables that are equal for all of its ranks, with
        the secret: callers such as Ray's HorovodTrainer hand over variables and nothing else."""
        shared = self.open()
        assert self._store is not None
        return {**shared, secret.TEXT_VARIABLE: self._store.key.hex()}

    def open(self) -> dict[str, str]:
        """Like establish_rendezvous(), without the secret, which is that of `store`."""
        self.close()
        hosts = {each.host for each in self._ranks.values()}
        self._store = DriverStore(hosts, self.settings.timeout_s)
        return self._store.environment

    def close(self) -> None:
        """Ends the store, if it is open."""
        if self._store is not None:
            self._store.close()
        self._store = None
