"""Events of the ranks of a host, and requests to the process that started them."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class RankStarted:
    rank: int
    pid: int


@dataclass(frozen=True)
class RankStartFailed:
    rank: int
    errno: int


@dataclass(frozen=True)
class RankEnded:
    rank: int
    code: int = 0
    signal: int = 0  # 0: it exited by itself

    @property
    def status(self) -> int:
        """Returns a status as a shell does: 128 + signal."""
        return 128 + self.signal if self.signal else self.code


@dataclass(frozen=True)
class Output:
    """Output of a rank on a host whose pipes are not ours; empty: the stream has ended."""

    rank: int
    stream: str  # stdout | stderr
    data: bytes


@dataclass(frozen=True)
class HostLost:
    """A host was lost; its ranks end by themselves. AllGone follows."""

    reason: str


@dataclass(frozen=True)
class Unanswered:
    """The process that started the ranks of this host has not ended them on request. AllGone
    follows."""

    killed: bool  # True: they were killed without it; otherwise they may still run


@dataclass(frozen=True)
class AllGone:
    """Nothing of the job is left on this host, except `resisting` processes. This is the last
    event."""

    resisting: int = 0
    guardian_died: bool = False


@dataclass(frozen=True)
class RankGone:
    """Nothing is left of one rank of an elastic job, except `resisting` processes. This is the last
    event of the rank; its host may start others."""

    rank: int
    resisting: int = 0


@dataclass(frozen=True)
class HostLeaving:
    """The agent of this host was sent SIGTERM: the ranks of an elastic job are to leave it."""


@dataclass(frozen=True)
class RankStopped:
    """Answers look(): a process of this rank is stopped at present."""

    rank: int


@dataclass(frozen=True)
class Alive:
    """Answers ask(): the agent of this host does its work."""


Event = (
    RankStarted
    | RankStartFailed
    | RankEnded
    | Output
    | HostLost
    | Unanswered
    | AllGone
    | RankGone
    | HostLeaving
    | RankStopped
    | Alive
)


# The events whose lines are a word and their fields.
_BY_WORD: Mapping[str, type[Any]] = {
    "started": RankStarted,
    "failed": RankStartFailed,
    "gone": RankGone,
    "stopped": RankStopped,
    "leaving": HostLeaving,
    "alive": Alive,
}


def parse(line: str) -> Event:
    """Parses a line of the guardian or the agent."""
    word, *rest = line.split()
    numbers = [int(text) for text in rest]
    if word == "exited":
        return RankEnded(*numbers)
    if word == "killed":
        return RankEnded(numbers[0], signal=numbers[1])
    if word == "unanswered":
        return Unanswered(killed=bool(numbers[0]))
    if word == "done":
        return AllGone(numbers[0], guardian_died=len(numbers) > 1)
    if word in _BY_WORD:
        event: Event = _BY_WORD[word](*numbers)
        return event
    raise ValueError(f"{line!r} is not an event")


def line(event: Event) -> str:
    """The reverse of parse(), for the agent."""
    if isinstance(event, RankEnded):
        how = f"killed {event.rank} {event.signal}"
        return how if event.signal else f"exited {event.rank} {event.code}"
    if isinstance(event, Unanswered):
        return f"unanswered {int(event.killed)}"
    if isinstance(event, AllGone):
        return f"done {event.resisting} 1" if event.guardian_died else f"done {event.resisting}"
    for word, kind in _BY_WORD.items():
        if isinstance(event, kind):
            return " ".join([word, *map(str, vars(event).values())])
    raise ValueError(f"{event} has no line")


def signal_name(number: int) -> str:
    """Returns SIGKILL for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class RankPipes:
    """Our end of a rank's two streams; nonblocking."""

    stdout: int
    stderr: int


class RankGroup(Protocol):
    """The ranks of one host. Not thread-safe. Always call close(), which leaves no process
    behind."""

    @property
    def pipes(self) -> Mapping[int, RankPipes]:
        """Returns the streams by rank, if they can be read here; otherwise they come as Output."""

    def fileno(self) -> int:
        """Returns a descriptor that is readable when there are events."""

    def events(self) -> list[Event]:
        """Returns the events so far; may block until there is one."""

    def terminate(self) -> None:
        """Sends SIGTERM to everything, and SIGKILL after the grace period; returns at once."""

    def kill(self) -> None:
        """Sends SIGKILL to everything; returns at once."""

    def forward(self, number: int) -> None:
        """Sends SIGUSR1 or SIGUSR2 to the ranks themselves, not to processes that they have
        started. Sends SIGQUIT to the processes of the job that catch it."""

    def wake(self) -> None:
        """A rank's output has ended, and its end may not have been reported: the process that
        reports it may be stopped."""

    def ending_seconds(self, politely: bool) -> float:
        """Every host that can answer sends AllGone within this time after terminate() or kill()."""

    def abandon(self) -> list[Event]:
        """AllGone has not come: kills what can be reached without help. Returns the last events,
        AllGone among them."""

    def close(self) -> None:
        """Kills what is left and waits until it is gone. Idempotent."""
