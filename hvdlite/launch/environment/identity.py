"""What is known about this process before it has met the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hvdlite.rendezvous.addresses import Address


class AtStore(NamedTuple):
    """A store exists already at one of these addresses."""

    addresses: tuple[Address, ...]
    may_open: bool = False  # if no process listens there, rank 0 opens the store


class OverMpi(NamedTuple):
    """Rank 0 opens the store and tells the others through MPI."""

    def __bool__(self) -> bool:
        return True  # a tuple without fields is false


class OverHttp(NamedTuple):
    """Rank 0 opens the store and tells the others through the rendezvous server of a horovodrun."""

    address: Address


class OverTorchStore(NamedTuple):
    """Rank 0 opens the store and tells the others through the TCPStore of torchrun's agent."""

    address: Address
    job: str  # the same for all processes of one attempt, and for no others


class AtPorts(NamedTuple):
    """The launcher has no channel. Rank 0, on the first of these hosts, opens the store at a port
    that follows from what all processes know."""

    hosts: tuple[str, ...]  # the other names are further ways to the first host
    job: str  # ditto
    may_be_open: bool = False  # the user says that strangers do not reach rank 0's host


class OnThisHost(NamedTuple):
    """All ranks are on one host. Rank 0 opens the store and tells the others at a socket that shows
    each side the user of the other."""

    job: str  # ditto


RendezvousMethod = AtStore | OverMpi | OverHttp | OverTorchStore | AtPorts | OnThisHost


class Numbers(NamedTuple):
    """The launcher's numbers. Those that it does not tell (None) are found after the ranks have
    met."""

    rank: int = 0
    size: int = 1
    local_rank: int | None = None
    local_size: int | None = None
    cross_rank: int | None = None
    cross_size: int | None = None


class Identity(NamedTuple):
    """This process's place in the job. The defaults are those of a process that is alone."""

    # Of Numbers:
    rank: int = 0
    size: int = 1
    local_rank: int | None = None
    local_size: int | None = None
    cross_rank: int | None = None
    cross_size: int | None = None
    launcher: str = ""  # for messages: "torchrun"
    rendezvous_method: RendezvousMethod | None = None
    # None: created or derived when the ranks meet
    secret: bytes | None = None
    by_mpi: bool = False  # an MPI's launcher: its processes can initialise MPI
    # If the program has selected and renumbered some of the ranks:
    whole: Identity | None = None  # the job as it was started
    # the numbers there of the ranks here; also empty if a communicator names them
    part: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return _without_secret(self)

    @property
    def on_one_host(self) -> bool:
        """Whether the launcher says that all ranks are on one host."""
        return self.local_size == self.size or isinstance(self.rendezvous_method, OnThisHost)

    @property
    def namespace(self) -> str:
        """Returns a name that separates jobs with the same place to meet: the name of the part;
        empty for all ranks."""
        if not self.part:
            return ""
        import hashlib  # loads OpenSSL

        return f"part-{hashlib.sha256(repr(self.part).encode()).hexdigest()[:16]}"

    @property
    def started_as(self) -> int:
        """Returns this process's number by the launcher."""
        return (self.whole or self).rank

    @property
    def rendezvous(self) -> Address | None:
        """Returns where a launcher has opened the store."""
        return (
            self.rendezvous_method.addresses[0]
            if isinstance(self.rendezvous_method, AtStore)
            else None
        )

    @property
    def at_launchers_store(self) -> bool:
        """Whether the ranks meet at a store that a launcher serves as long as the job lasts."""
        return isinstance(self.rendezvous_method, AtStore) and not self.rendezvous_method.may_open

    @property
    def place(self) -> tuple[Address, bytes] | None:
        """Returns the store's address and the secret, if a launcher has told both and nothing has
        to be found out."""
        known = (
            isinstance(self.rendezvous_method, AtStore)
            and len(self.rendezvous_method.addresses) == 1
            and self.at_launchers_store
        )
        return (self.rendezvous, self.secret) if known and self.rendezvous and self.secret else None


class InitArguments(NamedTuple):
    """The arguments of init()."""

    rank: int | None = None
    size: int | None = None
    rendezvous: str | None = None
    secret: str | bytes | None = None

    def __repr__(self) -> str:
        return _without_secret(self)


def _without_secret(record: Any) -> str:
    shown = (f"{name}={value!r}" for name, value in record._asdict().items() if name != "secret")
    return f"{type(record).__name__}({', '.join(shown)})"
