"""What happens to the ranks of a host, and what can be asked of the process that started them."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Started:
    rank: int
    pid: int


@dataclass(frozen=True)
class StartFailed:
    rank: int
    errno: int


@dataclass(frozen=True)
class Ended:
    rank: int
    code: int = 0
    signal: int = 0  # 0: it exited by itself

    @property
    def status(self) -> int:
        """As a shell counts: 128 + signal."""
        return 128 + self.signal if self.signal else self.code


@dataclass(frozen=True)
class Output:
    """What a rank has printed on a host whose pipes are not ours; empty: the stream has ended."""

    rank: int
    stream: str  # stdout | stderr
    data: bytes


@dataclass(frozen=True)
class Lost:
    """Nothing more is heard of a host; its ranks end by themselves. AllGone follows."""

    reason: str


@dataclass(frozen=True)
class Unanswered:
    """The process that started the ranks of this host has not ended them when it was asked to. AllGone follows."""

    killed: bool  # they were killed without it; else they may still run


@dataclass(frozen=True)
class AllGone:
    """Nothing of the job is left on this host, but for `resisting` processes; the last event."""

    resisting: int = 0
    guardian_died: bool = False


Event = Started | StartFailed | Ended | Output | Lost | Unanswered | AllGone


def parse(line: str) -> Event:
    """A line as the guardian and the agent write it."""
    word, *rest = line.split()
    numbers = [int(text) for text in rest]
    if word == "started":
        return Started(*numbers)
    if word == "failed":
        return StartFailed(*numbers)
    if word == "exited":
        return Ended(*numbers)
    if word == "killed":
        return Ended(numbers[0], signal=numbers[1])
    if word == "unanswered":
        return Unanswered(killed=bool(numbers[0]))
    if word == "done":
        return AllGone(numbers[0], guardian_died=len(numbers) > 1)
    raise ValueError(f"{line!r} is no event")


def line(event: Event) -> str:
    """The opposite of parse(), for the agent."""
    if isinstance(event, Started):
        return f"started {event.rank} {event.pid}"
    if isinstance(event, StartFailed):
        return f"failed {event.rank} {event.errno}"
    if isinstance(event, Ended):
        return f"killed {event.rank} {event.signal}" if event.signal else f"exited {event.rank} {event.code}"
    if isinstance(event, Unanswered):
        return f"unanswered {int(event.killed)}"
    if isinstance(event, AllGone):
        return f"done {event.resisting} 1" if event.guardian_died else f"done {event.resisting}"
    raise ValueError(f"{event} has no line")


def signal_name(number: int) -> str:
    """SIGKILL for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class Pipes:
    """This side of a rank's two streams; not blocking."""

    stdout: int
    stderr: int


class Group(Protocol):
    """The ranks of one host. Not thread-safe. Always call close(), which leaves no process behind."""

    @property
    def pipes(self) -> Mapping[int, Pipes]:
        """By rank, where the streams can be read here; elsewhere they come as Output."""

    def fileno(self) -> int:
        """Readable when there are events."""

    def events(self) -> list[Event]:
        """What has happened; may block until something has."""

    def terminate(self) -> None:
        """SIGTERM to everything, SIGKILL after the grace period; returns at once."""

    def kill(self) -> None:
        """SIGKILL to everything; returns at once."""

    def forward(self, number: int) -> None:
        """SIGUSR1 or SIGUSR2 to the ranks themselves, not to what they have started."""

    def wake(self) -> None:
        """A rank's output has ended, and its end has perhaps not been told: the process that has to tell it may be stopped."""

    def ending_seconds(self, politely: bool) -> float:
        """Within this time of terminate(), or of kill(), AllGone comes from every host that is able to answer."""

    def abandon(self) -> list[Event]:
        """It has not come: kills what can be reached without help. Returns the last events, AllGone among them."""

    def close(self) -> None:
        """Kill what is left and wait until it is gone. Idempotent."""
