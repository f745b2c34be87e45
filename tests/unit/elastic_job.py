"""A machine of the driver in a state that a test needs, and what it has said."""

from __future__ import annotations

from typing import Any, TypeVar

from hvdlite.launch.elastic import events as on
from hvdlite.launch.elastic.options import Policy
from hvdlite.launch.elastic.state_machine import Phase, StateMachine
from hvdlite.launch.hosts import parse_hosts
from hvdlite.rendezvous.documents import Assignment, DriverNotice, Report

Kind = TypeVar("Kind")


class Job:
    """Members are numbered from 1. `said` holds the actions of the last batch of events."""

    def __init__(self, hosts: str, **policy: Any) -> None:
        slots = sum(host.slots for host in parse_hosts(hosts))
        chosen = {"processes": slots, "least": 1, **policy}
        self.machine = StateMachine(Policy(**chosen))
        self.now = 0.0
        self.said: list[on.Action] = []
        self.position = 0
        self.found(hosts)

    def hear(self, *batch: on.Event, after: float = 0.0) -> Job:
        self.now += after
        self.said = self.machine.handle(batch, self.now)
        return self

    def found(self, hosts: str, after: float = 0.0) -> Job:
        return self.hear(on.HostsFound(tuple(parse_hosts(hosts))), after=after)

    def all(self, kind: type[Kind]) -> list[Kind]:
        return [action for action in self.said if isinstance(action, kind)]

    def the(self, kind: type[Kind]) -> Kind:
        [action] = self.all(kind)
        return action

    @property
    def starts(self) -> list[tuple[int, str, int]]:
        return [(start.member, start.host, start.slot) for start in self.all(on.Start)]

    @property
    def kills(self) -> list[int]:
        return [kill.member for kill in self.all(on.Kill)]

    @property
    def notice(self) -> DriverNotice:
        return self.the(on.Tell).notice

    @property
    def assignment(self) -> Assignment:
        return self.the(on.WriteAssignment).assignment

    @property
    def end(self) -> on.End:
        return self.the(on.End)

    @property
    def phase(self) -> Phase:
        return self.machine.phase

    # What members do.

    def meet(self, *members: int) -> Job:
        """Newcomers wait in init()."""
        return self.hear(*[on.Reported(Report(m, 0, newcomer=True, meets=True)) for m in members])

    def warm(self, *members: int) -> Job:
        """Newcomers wait in run."""
        return self.hear(*[on.Reported(Report(m, 0, newcomer=True)) for m in members])

    def report(self, *members: int, **fields: Any) -> Job:
        """Survivors want into the next generation."""
        generation = self.machine.generation + 1
        report = {"position": self.position, "whole": True, "copy": 0, **fields}
        reports = [on.Reported(Report(m, generation, **report)) for m in members]
        return self.hear(*reports)

    def enter(self, *members: int) -> Job:
        return self.hear(*[on.Entered(m, self.machine.generation) for m in members])

    def train(self, *members: int) -> Job:
        return self.hear(*[on.Trains(m) for m in members])

    def form(self, *members: int) -> Job:
        """From the assignment until all train."""
        return self.enter(*members).train(*members)

    def die(self, *members: int, status: int = 137, line: str = "", after: float = 0.0) -> Job:
        """By a signal where the status says so; else the line names an exception."""
        number = max(0, status - 128)
        is_error = bool(line) and not number
        ended = [on.Ended(m, status, line, is_error, number) for m in members]
        return self.hear(*ended, after=after)


def running(hosts: str = "a:4", **policy: Any) -> Job:
    """All slots have a member, and all of them train at position 5."""
    job = Job(hosts, **policy)
    members = [start.member for start in job.all(on.Start)]
    job.meet(*members)
    assert job.assignment.member_numbers() == tuple(members)
    job.form(*members)
    assert job.phase is Phase.RUNNING
    job.position = 5
    return job
