"""Jobs whose members the program chooses, one after another: torch's reconfigure.

Each process has a handle, which the program takes to the others by a way of its own. A list of
handles makes a job: the position is the rank, and the ranks meet at a store in the process of the
first. A process that is in the list and does not come ends the meeting by its timeout; one that is
not in the list does nothing.
"""

from __future__ import annotations

import enum
import math
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from hvdlite import _core
from hvdlite.core import engine
from hvdlite.exceptions import HorovodInternalError
from hvdlite.job import basics, torch_environment
from hvdlite.job.arrival import Arrival
from hvdlite.launch.environment import Identity
from hvdlite.rendezvous import StoreServer, addresses, protocol
from hvdlite.rendezvous.addresses import Address, join_address, parse_addresses

_FORMAT = "hvdlite/1"
_LAUNCHER = "torch.distributed's reconfigure"
# The core has 31 bits for it, and torch's uuid has 64.
_LAST_GENERATION = (1 << 31) - 1
_MEETING = "start_timeout_seconds"
# Ranks that all come along leave a job that works in the order that hvd.shutdown() has.
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Handle:
    """What a process tells the others of itself."""

    member: str
    addresses: tuple[Address, ...]
    secret: bytes = field(repr=False)

    def encode(self) -> str:
        places = ",".join(join_address(*each) for each in self.addresses)
        return f"{_FORMAT} {self.member} {places} {self.secret.hex()}"

    @classmethod
    def decode(cls, text: str) -> Handle:
        """ValueError if it is no handle of this version of hvdlite."""
        parts = text.split(" ")
        if len(parts) != 4 or parts[0] != _FORMAT:
            raise ValueError(
                f"reconfigure: {text[:40]!r} is not a handle of the backend hvdlite: do all "
                "processes use this backend, in the same version?"
            )
        _, member, places, secret = parts
        known = protocol.check_secret(bytes.fromhex(secret))
        return cls(member, tuple(parse_addresses(places, "a handle of reconfigure")), known)


def in_order(handles: Collection[str]) -> list[Handle]:
    """By rank. The ranks of a set are in an order that is the same in all processes."""
    listed = handles if isinstance(handles, Sequence) else sorted(handles)
    decoded = [Handle.decode(each) for each in listed]
    members = [each.member for each in decoded]
    twice = next((m for m in members if members.count(m) > 1), None)
    if not members or twice is not None:
        wrong = "the list of handles is empty" if twice is None else "a handle is there twice"
        raise ValueError(f"reconfigure: {wrong}")
    return decoded


class Ending(enum.Enum):
    """How a job has ended, in torch's words."""

    SUCCESS = enum.auto()  #: it has not, or this process has ended it
    REMOTE_ERROR = enum.auto()
    TIMEOUT = enum.auto()


class Member:
    """This process, in job after job."""

    def __init__(self) -> None:
        self._name = secrets.token_hex(8)
        self._secret = protocol.new_secret()
        self._server: StoreServer | None = None
        self._used: set[int] = set()
        self._members: frozenset[str] = frozenset()  # of the job that it is in
        self._generation = 0
        self._aborted = False  # by this process, since it has joined

    def handle(self) -> str:
        """The same each time, for the life of this object."""
        if self._server is None:
            self._server = StoreServer.reached(self._secret, everywhere=True).start()
        port = self._server.address[1]
        places = tuple((host, port) for host in torch_environment.addresses_of_this_host())
        return Handle(self._name, places, self._secret).encode()

    def checked(self, uuid: int, handles: Collection[str]) -> list[Handle]:
        """The handles by rank. Nothing has happened if this raises.

        RuntimeError for a uuid that this process has used; ValueError if the handles make no job
        with this process in it.
        """
        if uuid in self._used:
            raise RuntimeError(
                f"reconfigure: the uuid {uuid} was already used in this process: each "
                "reconfiguration has a new one, which is the same on all ranks"
            )
        there = in_order(handles)
        if self._name not in [each.member for each in there]:
            raise ValueError(
                "reconfigure: this process's own handle is not among the handles. A process that "
                "is left out does not call reconfigure()."
            )
        return there

    def join(self, uuid: int, there: Sequence[Handle], timeout: timedelta) -> tuple[int, int]:
        """Leaves the job that this process is in, and joins the one of these handles, which are
        checked. Returns its rank and size there. TimeoutError or HorovodInternalError if the
        ranks do not meet."""
        self._used.add(uuid)
        names = [each.member for each in there]
        self.leave(patiently=self._members <= set(names))
        me = Identity(names.index(self._name), len(names), launcher=_LAUNCHER)
        place = None if me.size == 1 else _reached(there[0], me.rank, timeout)
        self._generation = uuid if 0 < uuid <= _LAST_GENERATION else uuid % _LAST_GENERATION + 1
        seconds = max(1, math.ceil(timeout.total_seconds()))
        proof = (self._generation, str(uuid), me.rank, seconds)
        arrived = Arrival(me, None, place, None, f"reconfigured/{uuid}/", generation=proof)
        try:
            with torch_environment.taking(timeout, torch_environment.STALL, _MEETING):
                basics.join(arrived)
        except TimeoutError as error:
            raise TimeoutError(
                f"reconfigure: not all of the {me.size} ranks have come to the meeting with uuid "
                f"{uuid} within {seconds} s: {error}"
            ) from error
        self._members, self._aborted = frozenset(names), False
        return me.rank, me.size

    def leave(self, patiently: bool = False) -> None:
        """`patiently`: the other ranks leave, too, so operations under way are carried out."""
        self._members = frozenset()
        if basics.is_initialized():
            if not patiently:
                self.abort(f"rank {basics.rank()} has left this job for another one (reconfigure)")
            basics.shutdown(0.0 if _core.ended() else _PATIENCE_SECONDS)

    def abort(self, why: str) -> None:
        """Ends what is under way. The job is lost, and this process may join another one."""
        self._aborted = True
        engine.end_generation(self._generation, why)

    def ending(self) -> Ending:
        if self._aborted or not _core.ended():
            return Ending.SUCCESS
        return Ending.REMOTE_ERROR if _core.failure() else Ending.TIMEOUT

    def close(self) -> None:
        """Ends this object's life. Jobs that have met here go on."""
        if self._server is not None:
            self._server.close()


def _reached(first: Handle, rank: int, timeout: timedelta) -> tuple[Address, bytes]:
    """The address at which this process reaches the store of the first rank."""
    if rank == 0:
        return ("127.0.0.1", first.addresses[0][1]), first.secret
    try:
        address, client = addresses.reach(
            first.addresses, first.secret, max(timeout.total_seconds(), 1.0)
        )
    except OSError as error:
        raise HorovodInternalError(
            f"reconfigure: rank {rank} could not reach rank 0, at whose store the ranks meet: "
            f"{error}"
        ) from error
    client.close()
    return address, first.secret
