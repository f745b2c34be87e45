"""What the driver of an elastic job hears, and what it is told to do: all that the machine knows.

A member is a process, with a number that is never used again.
The driver hands events in batches to `state_machine.StateMachine.handle(events, now)`, does the
actions that come back in their order, and calls again by `due()` at the latest.

A process learns by these keys of the store what becomes of it:

    elastic/notice/<k>       Tell             all members, and newcomers that wait
    elastic/assignment/<g>   WriteAssignment  those of generation g - 1 wait for it
    elastic/place/<member>   WriteAssignment  for its newcomers: the generation's number
                             WarmAlone        0: `init()` returns at once, without an engine

What a process does, so that the machine is right about it:

1. Start(meets=True): `init()` reports into generation 0 (newcomer, meets) and waits for its place.
   With 0 it goes on as 2.
2. Start(meets=False): `init()` returns at once. `run` reports into generation 0 (newcomer) and
   waits for its place.
3. With an assignment it forms the engine (Entered), takes its state, and calls the function (Trains
   the first time, Returned when it is over).
4. A boundary that agrees on a notice beyond the assignment's `answers`, or an error of the engine
   (broken): it reports into the next generation and waits for that assignment. A newcomer stays
   one in its reports until it has the job's state.
5. A notice that names it as leaving, or `stop`: at the next boundary it reports with `leaves`, and
   exits with 0. If its generation breaks before, it reports without; the next assignment may name
   it, so that it comes to a boundary.
6. An assignment without it: it exits with 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from hvdlite.launch.hosts import Host
from hvdlite.rendezvous.documents import Assignment, DriverNotice, RankNumbers, Report

# Events.


@dataclass(frozen=True)
class HostsFound:
    """The latest answer of discovery: all hosts, in its order."""

    hosts: tuple[Host, ...]


@dataclass(frozen=True)
class HostLost:
    """Nothing is heard of a host any more. Its processes are gone, or end by themselves."""

    host: str
    reason: str = ""  # a sentence for people; empty: it was told before


@dataclass(frozen=True)
class Ended:
    """A process is gone and reaped, so its slot holds no memory of a GPU and no port any more."""

    member: int
    status: int  # as a shell counts: 128 + signal
    last_line: str = ""  # what it said of its error
    is_error: bool = False  # the line names an exception
    signal: int = 0  # that ended it


@dataclass(frozen=True)
class StartFailed:
    """A process could not be started."""

    member: int
    reason: str


@dataclass(frozen=True)
class Reported:
    """A report that was decoded with its member's token: elastic/report/<g>/<member>."""

    report: Report


@dataclass(frozen=True)
class Unfit:
    """A newcomer cannot be in this job, whatever it reports."""

    member: int
    why: str


@dataclass(frozen=True)
class Stopped:
    """Answers Look: a process of the member is stopped at present, by SIGSTOP or a debugger."""

    member: int


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
    """The program's function has returned: elastic/done/<member>. Now its exit 0 is a success.

    The exit 0 of a program that does without `run` is a success, too.
    """

    member: int


@dataclass(frozen=True)
class MemberLeaves:
    """A process was sent SIGTERM, or has called leave(): elastic/leave/<member>."""

    member: int
    reason: str = ""
    seconds: float | None = None  # that it has; None: --leave-seconds


@dataclass(frozen=True)
class HostLeaves:
    """A host's agent was sent SIGTERM, or `hvdlite leave` was called there."""

    host: str
    reason: str = ""  # a sentence for people; empty: it was told before
    seconds: float | None = None


@dataclass(frozen=True)
class Stop:
    """hvdliterun was sent SIGTERM: all go at the next boundary."""

    status: int  # of the launcher, in the end


OfMember = Ended | StartFailed | Unfit | Stopped | Entered | Trains | Returned | MemberLeaves
Event = OfMember | Reported | HostsFound | HostLost | HostLeaves | Stop

# Actions.


@dataclass(frozen=True)
class Start:
    """Start a process. Ended or StartFailed comes for it in the end, or HostLost for its host."""

    member: int
    host: str
    slot: int
    meets: bool  # its `init()` waits for the first generation; else it warms up on its own
    expected: RankNumbers  # what it is told while it warms up


@dataclass(frozen=True)
class Kill:
    """End a process; it may be gone already. `politely`: SIGTERM and the grace period first."""

    member: int
    why: str
    politely: bool = False


@dataclass(frozen=True)
class Look:
    """Look for members that are stopped. Stopped comes for each of them."""


@dataclass(frozen=True)
class Tell:
    notice: DriverNotice


@dataclass(frozen=True)
class WarmAlone:
    """A newcomer came too late for the generation that meets in `init()`."""

    member: int


@dataclass(frozen=True)
class FailRendezvous:
    """A member of the assignment will not join its generation: the others stop waiting for it."""

    generation: int
    member: int


@dataclass(frozen=True)
class WriteAssignment:
    """Put a nonce into the assignment, write it, and write the places of its newcomers."""

    assignment: Assignment


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


Action = (
    Start | Kill | Look | Tell | WarmAlone | FailRendezvous | WriteAssignment | Forget | Say | End
)
