"""What rank 0 tells the others, and what they do with it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hvdlite.bootstrap import opening
from hvdlite.launch.address import Address
from hvdlite.launch.environment import Identity
from hvdlite.rendezvous import addresses, protocol

# A channel: rank 0 passes what it says, the others None; all get what was said. TimeoutError: nothing was said in time.
Channel = Callable[[bytes | None, float], bytes]

# Long enough for an address of each of dozens of interfaces, short enough for a single message everywhere.
MAX_BYTES = 8192


@dataclass(frozen=True)
class Place:
    """Where the store is, and what it wants to hear."""

    address: Address
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class Offer:
    """`problem`: why there is no store."""

    addresses: tuple[Address, ...] = ()
    secret: bytes | None = field(default=None, repr=False)  # None: all ranks have it
    problem: str = ""

    def encode(self) -> bytes:
        secret = None if self.secret is None else self.secret.hex()
        return json.dumps({"addresses": self.addresses, "secret": secret, "problem": self.problem}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Offer:
        """ConnectionError: something else was said."""
        try:
            said = json.loads(data)
            secret = None if said["secret"] is None else protocol.check_secret(bytes.fromhex(said["secret"]))
            return cls(tuple((str(host), int(port)) for host, port in said["addresses"]), secret, str(said["problem"]))
        except (ValueError, KeyError, TypeError):
            raise ConnectionError(
                "what rank 0 said about the job's store makes no sense here: do all ranks run the same hvdlite?"
            ) from None


def through(channel: Channel, me: Identity, interfaces: list[str], deadline: float) -> Place:
    """Rank 0 opens the store and says so; the others look for it."""
    if me.rank == 0:
        secret = me.secret or protocol.new_secret()
        try:
            port = opening.open_store(secret, me.on_one_host)
            offered = Offer(opening.addresses_of(port, me.on_one_host, interfaces), None if me.secret else secret)
        except (OSError, ValueError) as error:
            channel(Offer(problem=str(error)).encode(), _left(deadline))
            raise
        channel(offered.encode(), _left(deadline))
        return Place(("127.0.0.1", port), secret)
    offer = Offer.decode(channel(None, _left(deadline)))
    if offer.problem:
        raise ConnectionError(f"rank 0 could not open the job's store: {offer.problem}")
    found = me.secret or offer.secret
    if found is None:
        raise ConnectionError(
            f"rank 0 was given HVDLITE_SECRET and this rank {me.rank} was not: {me.launcher} has to pass it on to all"
        )
    address, client = addresses.reach(offer.addresses, found, _left(deadline))
    client.close()
    return Place(address, found)


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())
