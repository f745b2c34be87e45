"""Whether the members fail by the program's own fault, wherever they run. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from hvdlite.launch.elastic.events import Ended
from hvdlite.launch.verdict import ended_how, is_consequence

IN_A_ROW = 3
_CANNOT_START = 127
# Sent from outside: by the kernel when memory ran out, a user, a scheduler, a closed terminal.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Failure:
    """How a member has ended that should have gone on."""

    member: int
    host: str
    status: int
    how: str  # for people: "ended with status 1: ValueError: bad"
    error: str = ""  # the exception that has ended it, or why it cannot be in the job

    @property
    def is_consequence(self) -> bool:
        """Whether another member's end was the cause."""
        return is_consequence(self.how.encode(errors="replace"))

    def sentence(self) -> str:
        return f"member {self.member} on {self.host} {self.how.removesuffix('.')}."


def of_process(member: int, host: str, ended: Ended, where: str = "") -> Failure:
    """`where`: " before hvd.init()", for people."""
    how = ended_how(ended.signal, f"ended with status {ended.status}{where}", ended.last_line)
    outside = ended.signal in _FROM_OUTSIDE
    error = ended.last_line if ended.is_error and not outside else ""
    return Failure(member, host, ended.status, how, error)


def not_started(member: int, host: str, reason: str) -> Failure:
    how = f"ended with status {_CANNOT_START}: {reason}"
    return Failure(member, host, _CANNOT_START, how, error=reason)


@dataclass(frozen=True)
class Fault:
    """The same exception, again and again at one position."""

    failure: Failure  # the last one
    times: int
    host: str | None  # where all have failed, if that is one host


@dataclass
class _Row:
    """Those that have ended by one exception at the present position."""

    times: int = 0  # those that ended together count once
    members: int = 0
    hosts: set[str] = field(default_factory=set)
    generation: int = -1  # of the last that counted
    started: int = 0  # the newest member that there was then

    def count(self, failure: Failure, generation: int, started: int) -> None:
        self.members += 1
        self.hosts.add(failure.host)
        if generation > self.generation or failure.member > self.started:
            self.times += 1
            self.generation, self.started = generation, started


class Faults:
    """An exception that members meet three times in a row at one position is the program's fault.

    Those that end in one generation, or were started together, count once: a failing host takes
    several. Where no member is left, each counts.
    """

    def __init__(self) -> None:
        self._new: list[Failure] = []
        self._position = 0
        self._rows: dict[str, _Row] = {}  # by exception

    def note(self, failure: Failure) -> None:
        """Of one whose position is known later. What names no exception of its own, such as a
        process that was killed, does not count."""
        if failure.error and not failure.is_consequence:
            self._new.append(failure)

    def at(self, position: int, generation: int, started: int, alone: bool = False) -> Fault | None:
        """All that were noted have failed there. `started`: the newest member. `alone`: none is
        left. Returns the fault that the last of them is, if it is one."""
        if position != self._position:
            self._rows.clear()
            self._position = position
        new, self._new = self._new, []
        for failure in new:
            self._rows.setdefault(failure.error, _Row()).count(failure, generation, started)
        for failure in reversed(new):
            row = self._rows[failure.error]
            times = row.members if alone else row.times
            if times >= IN_A_ROW:
                only = next(iter(row.hosts)) if len(row.hosts) == 1 else None
                return Fault(failure, times, only)
        return None
