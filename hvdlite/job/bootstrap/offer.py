"""Rank 0's store, what rank 0 tells the others, what they do with it, and what rank 0 takes back.

The store is in rank 0's own process. It stays until the process ends, so init() after shutdown()
finds it again.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hvdlite.launch.environment import Identity
from hvdlite.rendezvous import StoreServer, addresses, protocol
from hvdlite.rendezvous.addresses import Address

_log = logging.getLogger(__name__)

# A channel: rank 0 passes its text and the others pass None; all get the text. Raises TimeoutError
# if no text came in time.
Channel = Callable[[bytes | None, float], bytes]

# Long enough for the addresses of dozens of interfaces, short enough for a single message
# everywhere.
MAX_BYTES = 8192


@dataclass(frozen=True)
class StoreAccess:
    """Where the store is, and the secret for it."""

    address: Address
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class Offer:
    """`secret`: the job's secret, if no rank was given one. `salt`: if rank 0 was given a secret,
    which may serve many jobs, this and the secret make the job's own key. `proof` shows which
    secret rank 0 has, without revealing it. `problem`: why there is no store."""

    addresses: tuple[Address, ...] = ()
    secret: bytes | None = field(default=None, repr=False)
    salt: str = ""
    proof: str = ""
    problem: str = ""

    def encode(self) -> bytes:
        return json.dumps(
            {**vars(self), "secret": None if self.secret is None else self.secret.hex()}
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> Offer:
        """Raises ConnectionError if the text is no offer."""
        try:
            said = json.loads(data)
            secret = (
                None
                if said["secret"] is None
                else protocol.check_secret(bytes.fromhex(said["secret"]))
            )
            texts = (str(said[name]) for name in ("salt", "proof", "problem"))
            return cls(
                tuple((str(host), int(port)) for host, port in said["addresses"]), secret, *texts
            )
        except (ValueError, KeyError, TypeError):
            raise ConnectionError(
                "this rank cannot read what rank 0 says about the job's store: do all ranks run "
                "the same version of hvdlite?"
            ) from None


def of_this_job(secret: bytes, job: str) -> bytes:
    """Returns the secret of one job, if the user's secret may serve many. Jobs that meet by mistake
    have different ones."""
    return hmac.digest(secret, b"hvdlite job " + job.encode(), "sha256")


def _proof(secret: bytes, salt: str) -> str:
    return hmac.digest(secret, b"hvdlite offer " + salt.encode(), "sha256").hex()


def _opened(me: Identity, interfaces: list[str]) -> tuple[Offer, StoreAccess]:
    """Opens the store and returns rank 0's offer."""
    salt = os.urandom(16).hex() if me.secret else ""
    secret = of_this_job(me.secret, salt) if me.secret else protocol.new_secret()
    port = open_store(secret, me.on_one_host)
    where = addresses_of(port, me.on_one_host, interfaces)
    offer = Offer(where, None, salt, _proof(me.secret, salt)) if me.secret else Offer(where, secret)
    return offer, StoreAccess(("127.0.0.1", port), secret)


def _secret_of(offer: Offer, me: Identity) -> bytes:
    """Raises ConnectionError if rank 0 and this rank were not given the same secret."""
    if me.secret is None:
        if offer.secret is None:
            raise ConnectionError(
                f"rank 0 was given a secret and this rank {me.rank} was not: {me.launcher} has to "
                "pass HVDLITE_SECRET or HVDLITE_SECRET_FILE on to all ranks"
            )
        return offer.secret
    if offer.secret is not None:
        raise ConnectionError(
            f"this rank {me.rank} was given a secret and rank 0 was not: {me.launcher} has to pass "
            "HVDLITE_SECRET or HVDLITE_SECRET_FILE on to all ranks"
        )
    if not hmac.compare_digest(offer.proof.encode(), _proof(me.secret, offer.salt).encode()):
        raise ConnectionError(
            f"this rank {me.rank} was given another secret than rank 0: HVDLITE_SECRET, or the "
            "file that HVDLITE_SECRET_FILE names, has to be the same for all ranks"
        )
    return of_this_job(me.secret, offer.salt)


def through(channel: Channel, me: Identity, interfaces: list[str], deadline: float) -> StoreAccess:
    """Rank 0 opens the store and publishes it; the others look for it."""
    if me.rank == 0:
        try:
            offer, place = _opened(me, interfaces)
        except (OSError, ValueError) as error:
            channel(
                Offer(problem=f"rank 0 could not open the job's store: {error}").encode(),
                _left(deadline),
            )
            raise
        channel(offer.encode(), _left(deadline))
        return place
    offer = Offer.decode(channel(None, _left(deadline)))
    if offer.problem:
        raise ConnectionError(offer.problem)
    secret = _secret_of(offer, me)
    address, client = addresses.reach(offer.addresses, secret, _left(deadline))
    client.close()
    return StoreAccess(address, secret)


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


# ---- The store

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


# ---- When all ranks have come

# What rank 0 takes back when all ranks have come. From then on, only strangers could use what it
# has published.
_to_withdraw: list[Callable[[], None]] = []


def when_all_are_here(act: Callable[[], None]) -> None:
    """Registers `act`, which takes a few seconds at most. If it raises OSError or RuntimeError, the
    job is not harmed."""
    _to_withdraw.append(act)


def all_are_here() -> None:
    """Called when the native core has met all ranks."""
    while _to_withdraw:
        act = _to_withdraw.pop()
        try:
            act()
        except (OSError, RuntimeError) as error:
            _log.info(
                "rank 0 could not withdraw what it had published for the other ranks: %s", error
            )


# A forked child has no job, and its parent owns the connections.
os.register_at_fork(after_in_child=_to_withdraw.clear)
