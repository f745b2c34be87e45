"""What is known about this process before it has met the others."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from hvdlite.rendezvous.addresses import Address


@dataclass(frozen=True)
class AtStore:
    """A store is there already, at one of these addresses."""

    addresses: tuple[Address, ...]
    may_open: bool = False  # where nothing listens there, rank 0 opens the store


@dataclass(frozen=True)
class OverMpi:
    """Rank 0 opens the store and tells the others through MPI."""


@dataclass(frozen=True)
class OverHttp:
    """Rank 0 opens the store and tells the others through the rendezvous server of a horovodrun."""

    address: Address


@dataclass(frozen=True)
class OverTorchStore:
    """Rank 0 opens the store and tells the others through the TCPStore of torchrun's agent."""

    address: Address
    job: str  # the same for all processes of one attempt, and for no others


@dataclass(frozen=True)
class AtPorts:
    """The launcher can pass nothing on: rank 0, on the first of these hosts, opens the store at a port that follows from what all
    processes know."""

    hosts: tuple[str, ...]  # the others are further ways to the first
    job: str  # ditto


@dataclass(frozen=True)
class OnThisHost:
    """All ranks are on one host: rank 0 opens the store and tells the others at a socket that shows each side whose process the
    other is."""

    job: str  # ditto


Meeting = AtStore | OverMpi | OverHttp | OverTorchStore | AtPorts | OnThisHost


@dataclass(frozen=True)
class Numbers:
    """As the launcher says. What it leaves open (None) is found out when the ranks have met."""

    rank: int = 0
    size: int = 1
    local_rank: int | None = None
    local_size: int | None = None
    cross_rank: int | None = None
    cross_size: int | None = None


@dataclass(frozen=True)
class Identity(Numbers):
    """This process' place in the job. Alone: the defaults."""

    launcher: str = ""  # for sentences: "torchrun"
    meeting: Meeting | None = None
    secret: bytes | None = field(default=None, repr=False)  # None: made, or derived, when the ranks meet
    by_mpi: bool = False  # the launcher is an MPI's: MPI can be initialised in its processes
    # Where the program has chosen some of the ranks, and called them otherwise:
    whole: Identity | None = None  # the job as it was started
    part: tuple[int, ...] = ()  # the numbers there of the ranks here; empty also where a communicator says who they are

    @property
    def on_one_host(self) -> bool:
        """Whether the launcher says that all ranks are on one host."""
        return self.local_size == self.size or isinstance(self.meeting, OnThisHost)

    @property
    def apart(self) -> str:
        """What keeps apart jobs that share a place to meet: a name for the part; empty for all ranks."""
        return f"part-{hashlib.sha256(repr(self.part).encode()).hexdigest()[:16]}" if self.part else ""

    @property
    def started_as(self) -> int:
        """This process' number by the launcher."""
        return (self.whole or self).rank

    @property
    def rendezvous(self) -> Address | None:
        """Where a launcher has opened the store."""
        return self.meeting.addresses[0] if isinstance(self.meeting, AtStore) else None

    @property
    def place(self) -> tuple[Address, bytes] | None:
        """The store's address and the secret, where a launcher has said both and nothing has to be found out."""
        known = isinstance(self.meeting, AtStore) and len(self.meeting.addresses) == 1 and not self.meeting.may_open
        return (self.rendezvous, self.secret) if known and self.rendezvous and self.secret else None


@dataclass(frozen=True)
class Asked:
    """The arguments of init()."""

    rank: int | None = None
    size: int | None = None
    rendezvous: str | None = None
    secret: str | bytes | None = field(default=None, repr=False)
