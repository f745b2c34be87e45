"""What the driver of an elastic job hears, and what it is told to do: all that the machine knows.

A member is a process, with a number that is never used again.
The driver hands events in batches to `membership.Membership.handle(events, now)`, does the
actions that come back in their order, and calls again by `due()` at the latest.

A process learns by these keys of the store what becomes of it:

    elastic/news/<k>         Tell          all members, and newcomers that wait
    elastic/roll/<g>         WriteRoll     those of generation g - 1 wait for it
    elastic/place/<member>   WriteRoll     of a roll's newcomers: the generation's number
                             WarmAlone     0: `init()` returns at once, without an engine
"""

from __future__ import annotations

from dataclasses import dataclass

from hvdlite.launch.hosts import Host
from hvdlite.rendezvous.roll import News, Place, Report, Roll

# Events.


@dataclass(frozen=True)
class HostsFound:
    """The latest answer of discovery: all hosts, in its order."""

    hosts: tuple[Host, ...]


@dataclass(frozen=True)
class HostLost:
    """Nothing is heard of a host any more. Its processes are gone, or end by themselves."""

    host: str


@dataclass(frozen=True)
class Ended:
    """A process is gone and reaped, so its slot holds no memory of a GPU and no port any more."""

    member: int
    status: int  # as a shell counts: 128 + signal
    last_line: str = ""  # what it has said of its error


@dataclass(frozen=True)
class StartFailed:
    """A process could not be started."""

    member: int
    reason: str


@dataclass(frozen=True)
class Reported:
    """A report that was decoded with its member's token."""

    report: Report


@dataclass(frozen=True)
class Entered:
    """A member's engine is up: elastic/in/<g>/<member>."""

    member: int
    generation: int


@dataclass(frozen=True)
class Trains:
    """A member has had the job's state for the first time and calls the program's function.

    The key is elastic/trains/<member>.
    """

    member: int


@dataclass(frozen=True)
class Returned:
    """The program's function has returned: elastic/done/<member>. Now its exit 0 is a success."""

    member: int


@dataclass(frozen=True)
class MemberLeaves:
    """A process was sent SIGTERM, or has called leave()."""

    member: int
    reason: str = ""
    seconds: float | None = None  # that it has; None: --leave-seconds


@dataclass(frozen=True)
class HostLeaves:
    """A host's agent was sent SIGTERM, or `hvdlite leave` was called there."""

    host: str
    reason: str = ""
    seconds: float | None = None


@dataclass(frozen=True)
class Stop:
    """hvdliterun was sent SIGTERM: all go at the next boundary."""

    status: int  # of the launcher, in the end


OfMember = Ended | StartFailed | Entered | Trains | Returned | MemberLeaves
Event = OfMember | Reported | HostsFound | HostLost | HostLeaves | Stop

# Actions.


@dataclass(frozen=True)
class Start:
    """Start a process. Ended or StartFailed comes for it in the end, or HostLost for its host."""

    member: int
    host: str
    slot: int
    meets: bool  # its `init()` waits for the first generation; else it warms up on its own
    expected: Place  # what it is told while it warms up


@dataclass(frozen=True)
class Kill:
    """End a process; it may be gone already. `politely`: SIGTERM and the grace period first."""

    member: int
    why: str
    politely: bool = False


@dataclass(frozen=True)
class Tell:
    news: News


@dataclass(frozen=True)
class WarmAlone:
    """A newcomer came too late for the generation that meets in `init()`."""

    member: int


@dataclass(frozen=True)
class FailMeeting:
    """A member of the roll will not join its generation: the others stop waiting for it."""

    generation: int
    member: int


@dataclass(frozen=True)
class WriteRoll:
    """Put a nonce into the roll, write it, and write the places of its newcomers."""

    roll: Roll


@dataclass(frozen=True)
class Forget:
    """Delete the keys of this generation and of those before it."""

    generation: int


@dataclass(frozen=True)
class Say:
    """A line for people."""

    text: str


@dataclass(frozen=True)
class End:
    """Kill all that is left; the last action. An empty sentence: all went well."""

    status: int
    sentence: str = ""


Action = Start | Kill | Tell | WarmAlone | FailMeeting | WriteRoll | Forget | Say | End
