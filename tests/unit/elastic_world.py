"""A pretended world around the driver's machine: processes that keep to the protocol, and faults.

It checks with each action what has to be true in every history.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from hvdlite.launch.elastic import events as on
from hvdlite.launch.elastic.options import Policy
from hvdlite.launch.elastic.state_machine import StateMachine
from hvdlite.launch.hosts import Host
from hvdlite.rendezvous.documents import Accusation, Assignment, Cause, Report, Role

HOSTS = ("a", "b", "c")
WORKING = ("joins", "is up", "trains", "reported")
TOO_LATE = "it has not left in time"


@dataclass
class Process:
    member: int
    host: str
    slot: int
    meets: bool
    doing: str = "starts"  # waits, joins, is up, trains, reported, returned, exits, dies
    generation: int = 0
    has_state: bool = False
    broken: bool = False
    leaves: bool = False
    noticed: bool = False  # it was asked to leave, whatever slots there are


@dataclass
class World:
    rng: random.Random
    policy: Policy
    now: float = 0.0
    position: int = 0
    processes: dict[int, Process] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    assignment: Assignment | None = None
    notices: int = 0
    answered: int = 0
    returned: bool = False
    trained: bool = False
    stopped: bool = False
    end: on.End | None = None
    log: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machine = StateMachine(self.policy, self.now, self.rng.random)

    # Driving it.

    def tell(self, *batch: on.Event) -> None:
        """Hand events to the machine and do what it says."""
        self.log.append((self.now, batch))
        for event in batch:
            self._mark(event)
        actions = self.machine.handle(batch, self.now)
        assert self.end is None or not actions, "there are actions behind the end"
        for action in actions:
            assert self.end is None, "the end is the last action"
            self.log.append(action)
            self._do(action)
        due = self.machine.due()
        assert due is None or due > self.machine._now, f"due {due} at {self.machine._now}"

    def _mark(self, event: on.Event) -> None:
        if isinstance(event, on.Trains | on.Returned):
            process = self.processes.get(event.member)
            if (
                process is not None
                and self.assignment
                and process.member in self.assignment.member_numbers()
            ):
                self.trained = True
                self.returned = self.returned or isinstance(event, on.Returned)
        for process in self.processes.values():
            named = isinstance(event, on.MemberLeaves) and event.member == process.member
            with_host = isinstance(event, on.HostLeaves) and event.host == process.host
            process.noticed |= named or with_host or isinstance(event, on.Stop)

    def _do(self, action: on.Action) -> None:
        if isinstance(action, on.Start):
            self._start(action)
        elif isinstance(action, on.Kill):
            if action.member in self.processes:  # its end may be in the same batch
                process = self.processes[action.member]
                if action.why == TOO_LATE:
                    self._check_leavers({action.member})
                process.doing = "dies"
        elif isinstance(action, on.WarmAlone):
            process = self.processes[action.member]
            process.meets, process.doing = False, "starts"
        elif isinstance(action, on.Tell):
            self._hear(action)
        elif isinstance(action, on.WriteAssignment):
            self._check(action.assignment)
            self._join(action.assignment)
        elif isinstance(action, on.FailRendezvous):
            assert self.assignment and action.generation == self.assignment.generation
            assert action.member in self.assignment.member_numbers()
        elif isinstance(action, on.End):
            self.end = action

    def _start(self, start: on.Start) -> None:
        assert all(start.member > number for number in self.processes), "a number is used again"
        for other in self.processes.values():
            assert (other.host, other.slot) != (start.host, start.slot), "a slot is given twice"
        assert start.slot < self.slots.get(start.host, 0)
        assert start.expected.size > start.expected.rank >= 0
        assert not self.returned and not self.stopped
        self.processes[start.member] = Process(start.member, start.host, start.slot, start.meets)
        on_host = [process for process in self.processes.values() if process.host == start.host]
        assert len(on_host) <= self.slots[start.host], "more processes than slots"

    def _hear(self, tell: on.Tell) -> None:
        notice = tell.notice
        assert notice.number == self.notices + 1
        self.notices = notice.number
        leaving = {leaving.member for leaving in notice.leaving}
        for process in self.processes.values():
            process.leaves = process.member in leaving or notice.stop
            if notice.broken and process.generation == notice.generation:
                process.broken = True
        self._check_leavers({each.member for each in self.processes.values() if each.leaves})

    def _check_leavers(self, leavers: set[int]) -> None:
        """A trained member leaves for want of slots where other trained members have them all."""
        at_work = [p for p in self.processes.values() if p.has_state and p.doing in WORKING]
        stay = Counter(each.host for each in at_work if each.member not in leavers)
        for each in at_work:
            if each.member in leavers and not each.noticed:
                full = stay[each.host] >= self.slots.get(each.host, 0)
                assert full, f"member {each.member} leaves a slot that no trained member has"
                assert stay, "no member stays that has the state"

    def _check(self, assignment: Assignment) -> None:
        before = self.assignment
        assert assignment.generation == (before.generation if before else 0) + 1, (
            "assignments ascend"
        )
        numbers, slots = (
            assignment.member_numbers(),
            {(entry.host, entry.slot) for entry in assignment.members},
        )
        assert len(set(numbers)) == len(numbers) == len(slots), "a slot or a member twice"
        assert all(self.processes[number].doing in ("waits", "reported") for number in numbers)
        assert assignment.answers == self.notices
        least = 1 if self.returned or self.stopped else self.policy.least
        assert least <= len(numbers) <= (self.policy.most or len(numbers)), "the minimum"
        parts = {entry.member: entry.role for entry in assignment.members}
        receive = Role.RECEIVE in parts.values()
        assert (assignment.source is not None) == receive, "there is one source where one is needed"
        if assignment.source is not None:
            assert parts[assignment.source] is not Role.RECEIVE
            if self.trained:
                assert self.processes[assignment.source].has_state
        if self.trained:
            assert self.processes[numbers[0]].has_state, "rank 0 is a survivor"
            newcomers = [
                e.member for e in assignment.members if not self.processes[e.member].has_state
            ]
            assert all(parts[number] is Role.RECEIVE for number in newcomers)
        if before is not None:
            last = [p for p in self.processes.values() if p.generation == before.generation]
            self._check_leavers({each.member for each in last} - set(numbers))
        locals_ = {
            (e.host, assignment.rank_numbers()[e.member].local_rank) for e in assignment.members
        }
        assert len(locals_) == len(numbers), "no two members take one GPU"

    def _join(self, assignment: Assignment) -> None:
        self.assignment, self.answered, self.position = (
            assignment,
            assignment.answers,
            assignment.position,
        )
        for process in self.processes.values():
            if process.member in assignment.member_numbers():
                process.doing, process.generation = "joins", assignment.generation
                process.broken = process.leaves = False
            elif process.doing == "reported":
                process.doing = "exits"

    # What processes do.

    def go_on(self, process: Process, calm: bool) -> on.Event | None:
        """A process does the next thing that it can do, if there is one."""
        if process.doing == "starts":
            process.doing = "waits"
            newcomer = Report(process.member, 0, newcomer=True, meets=process.meets)
            return on.Reported(newcomer)
        if process.doing in ("joins", "is up", "trains") and process.broken:
            return self._reports(process, calm)
        if process.doing == "joins" and self._all_are_there():
            process.doing = "is up"
            return on.Entered(process.member, process.generation)
        if process.doing == "is up":
            process.doing, process.has_state = "trains", True
            return on.Trains(process.member)
        if process.doing == "trains":
            return self._trains(process, calm)
        if process.doing in ("dies", "exits", "returned"):
            del self.processes[process.member]
            return on.Ended(process.member, 137 if process.doing == "dies" else 0)
        return None

    def _all_are_there(self) -> bool:
        present = {p.member for p in self.processes.values() if p.doing != "dies"}
        return self.assignment is not None and set(self.assignment.member_numbers()) <= present

    def _trains(self, process: Process, calm: bool) -> on.Event | None:
        if self.notices > self.answered or process.leaves:
            return self._reports(process, calm)
        if calm or self.rng.random() < 0.003:
            process.doing = "returned"
            return on.Returned(process.member)
        self.position += self.rng.random() < 0.3
        return None

    def _reports(self, process: Process, calm: bool) -> on.Event:
        """At a boundary, or because its generation is broken."""
        rng, holds = self.rng, process.has_state
        whole = holds and (not process.broken or calm or rng.random() < 0.8)
        accused: tuple[Accusation, ...] = ()
        if process.broken and not calm and rng.random() < 0.3:
            cause = rng.choice(list(Cause))
            accused = (Accusation(rng.choice(list(self.processes)), cause),)
        leaves = process.leaves and not process.broken
        left_out = self.assignment is not None and self.assignment.generation > process.generation
        process.doing = "exits" if leaves or left_out else "reported"
        report = Report(
            process.member,
            process.generation + 1,
            position=self.position if whole else rng.randint(0, self.position),
            whole=whole,
            copy=rng.randint(0, self.position) if holds else None,
            newcomer=not holds,
            leaves=leaves,
            broken=process.broken,
            accused=accused,
        )
        return on.Reported(report)

    # Faults.

    def disturb(self) -> None:
        """One fault, or something that is no fault but comes at a bad time."""
        rng = self.rng
        members = list(self.processes)
        choice = rng.random()
        if choice < 0.25 or not members:
            self.found({host: rng.choice([0, 2, 3, 4]) for host in HOSTS})
        elif choice < 0.6:
            count = 1 if rng.random() < 0.9 else rng.randint(1, len(members))
            self.tell(*[self._dies(member) for member in rng.sample(members, count)])
        elif choice < 0.64:
            host = rng.choice(HOSTS)
            for member in [p.member for p in self.processes.values() if p.host == host]:
                del self.processes[member]
            self.tell(on.HostLost(host))
        elif choice < 0.68:
            self.tell(on.MemberLeaves(rng.choice(members), "", rng.choice([None, 1.0])))
        elif choice < 0.72:
            self.tell(on.HostLeaves(rng.choice(HOSTS), "", rng.choice([None, 5.0])))
        elif choice < 0.73:
            self.stopped = True
            self.tell(on.Stop(143))
        elif choice < 0.9:
            self.tell(self._stale(rng.choice(members)))
        else:
            self.now -= rng.random() * 100  # a clock jumps
            self.tell()

    def found(self, slots: dict[str, int]) -> None:
        self.slots = {host: count for host, count in slots.items() if count}
        hosts = tuple(Host(host, count) for host, count in self.slots.items())
        self.tell(on.HostsFound(hosts))

    def _dies(self, member: int) -> on.Event:
        process = self.processes.pop(member)
        if self.rng.random() < 0.05:
            return on.StartFailed(member, "no such file")
        status = self.rng.choice([0, 1, 137, 137])
        present = self.assignment is not None and process.generation == self.assignment.generation
        before_run = process.doing == "is up" and present
        if status == 0 and before_run and not process.has_state and not self.trained:
            # With its host put out in the same batch, it would be lost instead.
            self.returned |= self.policy.failure_unit == "slot"
            status = 0 if self.returned else 1
        line = self.rng.choice(["", "ValueError: 1", "ValueError: 2"])
        return on.Ended(member, status, line, bool(line), max(0, status - 128))

    def _stale(self, member: int) -> on.Event:
        """What comes late, twice or from a member that is gone."""
        generation = self.assignment.generation if self.assignment else 0
        member = self.rng.choice([member, 10**6])
        return self.rng.choice(
            [
                on.Reported(Report(member, max(0, generation - 1), 7, whole=True)),
                on.Reported(Report(10**6, generation + 1, 7, whole=True)),
                on.Entered(member, generation - 1),
                on.Trains(10**6),
                on.Ended(10**6, 1, "gone"),
            ]
        )


def live(rng: random.Random) -> World:
    """A random history: some moves with faults, then none any more until the end."""
    least = rng.randint(1, 3)
    processes = least + rng.randint(0, 2)
    policy = Policy(
        processes=processes,
        least=least,
        most=rng.choice([None, processes, processes + 1]),
        spares=rng.choice([0, 0, 1]),
        reset_limit=rng.choice([None, None, 3]),
        cooldown_range=rng.choice([None, None, (1.0, 5.0)]),
        failure_unit=rng.choice(["slot", "slot", "host"]),
    )
    world = World(rng, policy)
    world.found({"a": processes, "b": rng.randint(0, 2)})
    for _ in range(rng.randint(10, 100)):
        if world.end is not None:
            return world
        _move(world)
    _finish(world)
    return world


def _move(world: World) -> None:
    rng = world.rng
    choice = rng.random()
    if choice < 0.1:
        world.disturb()
    elif choice < 0.2 or not world.processes:
        due = world.machine.due()
        soon = world.now + rng.random() * 3
        world.now = soon if due is None or rng.random() < 0.8 else max(due, world.now)
        world.tell()
    else:
        chosen = rng.choice(list(world.processes.values()))
        event = world.go_on(chosen, calm=False)
        if event is not None:
            world.tell(event)


def _finish(world: World) -> None:
    """Without faults the job ends."""
    for _ in range(1000):
        quiet = True
        for process in list(world.processes.values()):
            if world.end is not None:
                return
            if world.processes.get(process.member) is process:
                event = world.go_on(process, calm=True)
                if event is not None:
                    quiet = False
                    world.tell(event)
        if world.end is not None:
            return
        if quiet:
            due = world.machine.due()
            assert due is not None, "nothing will ever happen any more"
            world.now = max(due, world.now)
            world.tell()
    raise AssertionError("there is no end")
