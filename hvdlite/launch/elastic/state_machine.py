"""Who is in which generation of an elastic job: the driver's state machine. Pure.

Events and times go in, actions come out (see `events`). It reads no clock and does no I/O;
a time that is earlier than the last one counts as the last one.

It goes from one `Phase` to the next: a generation forms, runs, and ends with a loss or a report.
Then the members report until the next assignment can be written.

The first generation reports in `init()`. If all its members die before any has trained, the job
starts anew. After the first member whose function has returned there is no minimum any more:
those that are left finish among themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from hvdlite.launch.elastic import events, outcome
from hvdlite.launch.elastic.events import Action, Event, OfMember
from hvdlite.launch.elastic.exits import Exits
from hvdlite.launch.elastic.members import Member, Members, Stage, listed
from hvdlite.launch.elastic.options import Policy
from hvdlite.launch.elastic.unreachable import Unreachable, accusations
from hvdlite.rendezvous.documents import (
    Assignment,
    Cause,
    DriverNotice,
    Entry,
    LeavingMember,
    Report,
)
from hvdlite.rendezvous.last_step import Decision, Inconsistent, decide

SUSPECT_SECONDS = 2.0
TELL_OF_WAITING_SECONDS = 60.0
TOGETHER_SECONDS = 2.0  # newcomers that come so soon behind one another are told of at once


class Phase(Enum):
    REPORTING = "reporting"  # the living members of generation g report
    FORMING = "forming"  # assignment g + 1 is written, its engines come up
    RUNNING = "running"  # all are in; a loss or a report ends the generation
    ENDED = "ended"


@dataclass
class Progress:
    """How far the job has come."""

    met: bool = False  # a generation was up since the job has started, or started anew
    up: int = 0  # the last generation that was up
    cohort: bool = False  # those that the first generation waits for are started
    resets: int = 0  # generations with other members than the one before
    ranks: tuple[int, ...] = ()  # of the latest assignment


class StateMachine:
    def __init__(
        self, policy: Policy, now: float = 0.0, chance: Callable[[], float] = lambda: 0.0
    ) -> None:
        """`chance` gives numbers from 0 to 1, for the cool-down."""
        self.policy = policy
        self.members = Members(policy, chance)
        self.phase = Phase.REPORTING
        self.generation = 0
        self._actions: list[Action] = []
        self._outcome = outcome.Outcome()
        self._exits = Exits(self.members, self._outcome, self._actions)
        self._announcements = Announcements()
        self._unreachable = Unreachable()
        self._progress = Progress()
        self._now = now
        self._since = now  # of the phase
        self._short_since: float | None = now  # fewer than the minimum are there
        self._stop_by: float | None = None
        self._breaks = False  # a report says that this generation is broken
        self._broken = 0  # the last generation of which a notice says so
        self._said_waiting = False

    def handle(self, batch: Sequence[Event], now: float) -> list[Action]:
        """What has happened at once, in its order. No events: only time has passed."""
        if self.phase is Phase.ENDED:
            return []
        self._now = max(self._now, now)
        for event in batch:
            self._hear(event)
        self._exits.reconsider(self._now)
        self._exits.recall()
        self._overdue()
        self._tell_of_losses()
        self._proceed()
        actions = list(self._actions)
        self._actions.clear()
        return actions

    def due(self) -> float | None:
        """When handle() has to be called at the latest even if nothing happens."""
        if self.phase is Phase.ENDED:
            return None
        times = [self._stop_by, self._exits.stopped_members.deadline()]
        for member in self.members.by_number.values():
            times += [member.leave_by, member.suspect_until]
        if self._awaited():
            times.append(self._since + self.policy.elastic_timeout)
            if not self._said_waiting:
                times.append(self._since + TELL_OF_WAITING_SECONDS)
        elif self._short_since is not None and self._outcome.stop is None:
            times.append(self._short_since + self.policy.elastic_timeout)
        if self.phase is Phase.RUNNING:
            times.append(self._announcements.deadline())
        if self._fills():
            times.append(self.members.cooled(self._now))
        return min((time for time in times if time is not None), default=None)

    # Events.

    def _hear(self, event: Event) -> None:
        if isinstance(event, events.HostsFound):
            self._exits.hosts_found(event.hosts)
        elif isinstance(event, events.HostLost):
            self._exits.host_lost(event, self._now)
        elif isinstance(event, events.HostLeaves):
            self._exits.host_leaves(event, self._now)
        elif isinstance(event, events.Stop):
            self._stop(event.status)
        elif isinstance(event, events.Reported):
            member = self.members.by_number.get(event.report.member)
            if member is not None:
                self._reported(member, event.report)
        elif event.member in self.members.by_number:
            self._hear_of(self.members.by_number[event.member], event)

    def _hear_of(self, member: Member, event: OfMember) -> None:
        if isinstance(event, events.Ended):
            first = member.stage is Stage.COLD and member.meets
            where = " before hvd.init()" if first and not event.status else ""
            failure = outcome.of_process(member.number, member.host, event, where)
            self._exits.ended(member, failure, self._now)
        elif isinstance(event, events.StartFailed):
            failure = outcome.not_started(member.number, member.host, event.reason)
            self._exits.ended(member, failure, self._now)
        elif isinstance(event, events.Unfit):
            self._exits.refuse(member, event.why, self._now)
        elif isinstance(event, events.Stopped):
            self._exits.stopped(member, self._now)
        elif isinstance(event, events.MemberLeaves):
            self._exits.asked_to_leave([member], event.reason, event.seconds, self._now)
        elif isinstance(event, events.Entered):
            member.inside = member.inside or event.generation == self.generation
        elif member.stage is Stage.SERVING:
            member.has_state = True
            self._outcome.trains()
            if isinstance(event, events.Returned):
                member.returned()
                self._outcome.function_returned()

    def _reported(self, member: Member, report: Report) -> None:
        if member.stage is Stage.SERVING and report.generation == self.generation + 1:
            self._survivor_reported(member, report)
        elif member.waits_for(report):
            member.stage, member.report = Stage.WARM, report

    def _survivor_reported(self, member: Member, report: Report) -> None:
        member.reports(report)
        if member.has_state:
            self._outcome.trains()
        for accusation in report.accused:
            accused = self.members.by_number.get(accusation.member)
            if accusation.cause is Cause.SILENCE and accused and accused.is_missing:
                accused.suspect(self._now + SUSPECT_SECONDS)
        self._breaks = self._breaks or report.broken
        if self.phase is Phase.FORMING:
            self._actions.append(events.FailRendezvous(self.generation, member.number))
        if self.phase is not Phase.REPORTING:
            if self.phase is Phase.RUNNING and not report.broken:
                self.members.come_to_boundary()
            else:
                self.members.generation_broke()
            self._enter(Phase.REPORTING)
        if report.leaves:
            self._exits.left(member, self._now)

    def _stop(self, status: int) -> None:
        if self._outcome.stop is None:
            self._outcome.asked_to_stop(status)
            self._stop_by = self._now + self.policy.leave_seconds
            serving = self.members.of(Stage.SERVING)
            self._exits.asked_to_leave(serving, "the job was asked to end", None, self._now)
            self._exits.dismiss(self.members.newcomers(), "the job ends")
            self._tell()

    # What time does.

    def _overdue(self) -> None:
        if self._stop_by is not None and self._now >= self._stop_by:
            return self._end(self._outcome.stopped())
        self._exits.overdue(self._now)
        late, now = self._awaited(), self._now
        self._exits.look(bool(late), now)
        if late and now >= self._since + self.policy.elastic_timeout:
            self._waited_too_long(late)
        elif late and now >= self._since + TELL_OF_WAITING_SECONDS and not self._said_waiting:
            self._said_waiting = True
            said = f"the next generation waits for {listed(late)}."
            if all(member.stage is Stage.COLD for member in late):
                said = f"the job waits for hvd.init() of {listed(late)}."
            self._actions.append(events.Say(said))
        return None

    def _waited_too_long(self, late: Sequence[Member]) -> None:
        """Where a generation does not come up, all report, but those that cannot."""
        if self.phase is Phase.FORMING:
            self._breaks = True
            self._actions.append(events.FailRendezvous(self.generation, late[0].number))
            return
        for member in late:
            why = f"it was waited for {self.policy.elastic_timeout:g} s"
            self._exits.kill(member, why, self._now)

    def _awaited(self) -> list[Member]:
        """Those without which the phase does not end."""
        serving = self.members.of(Stage.SERVING)
        if self.phase is Phase.FORMING:
            return [member for member in serving if not member.inside]
        if self.phase is not Phase.REPORTING:
            return []
        cohort = [m for m in self.members.of(Stage.COLD) if m.awaited and not serving]
        return cohort + [member for member in self.members.staying() if member.report is None]

    # Notices.

    def _tell_of_losses(self) -> None:
        lost = self._exits.lost
        breaks = self._breaks and self._broken != self.generation
        if not (lost or breaks) or self.phase is Phase.ENDED:
            return
        if self.phase is Phase.FORMING:
            self._actions += [events.FailRendezvous(self.generation, number) for number in lost]
        if self.phase is not Phase.REPORTING:
            self._enter(Phase.REPORTING)
        self._tell(broken=True)

    def _tell(self, broken: bool = False, ready: Sequence[Member] = ()) -> None:
        lost = self._exits.take_lost() if broken else ()
        if broken:
            self._broken = self.generation
            self.members.generation_broke()
        leaving, stop = self.members.leaving(), self._outcome.stop is not None
        told = self._announcements
        notice = told.notice(self.generation, broken, lost, ready, leaving, stop, self._now)
        self._actions.append(events.Tell(notice))

    def _announce(self) -> None:
        """Planned changes."""
        staying, unlisted = self.members.staying(), self.members.unlisted()
        ready, most = self._admitted(staying), self.policy.most
        room = most is None or len(staying) + len(ready) < most
        others = room and bool(self.members.of(Stage.COLD))
        if self._announcements.due(ready, self.members.leaving(), unlisted, others, self._now):
            for member in unlisted:
                reason = "its host has no slot for it any more"
                member.told_to_leave(self._now + self.policy.leave_seconds, reason)
            self._tell(ready=ready)

    # From one phase to the next.

    def _enter(self, phase: Phase) -> None:
        self.phase, self._since, self._said_waiting = phase, self._now, False

    def _proceed(self) -> None:
        """All that the present state asks for."""
        if self.phase is Phase.FORMING and not self._awaited():
            self._run()
        over = self._outcome.end(self.members)
        if over is not None:
            self._end(over)
        self._form_next()
        if self.phase is Phase.RUNNING and self._outcome.stop is None:
            self._announce()
        if self._fills():
            self._fill()

    def _run(self) -> None:
        """All are in. Newcomers that wait in init() are too late for it."""
        self._enter(Phase.RUNNING)
        self._progress.met, self._progress.up = True, self.generation
        if self._outcome.stop is not None:
            self._tell()  # the assignment answers the notice that said so
        for member in self.members.newcomers():
            if member.meets:
                member.warms_up_alone()
                self._actions.append(events.WarmAlone(member.number))

    def _admitted(self, staying: Sequence[Member]) -> list[Member]:
        """The newcomers that an assignment includes: those that are warm, while there is room."""
        if self._outcome.winds_down:
            return []
        warm = self.members.of(Stage.WARM)
        most = self.policy.most
        return warm if most is None else warm[: max(0, most - len(staying))]

    def _form_next(self) -> None:
        if self.phase is not Phase.REPORTING:
            return None
        if not self._outcome.trained:
            if self._is_faulty(0):
                return self._form_next()
            if self._progress.ranks and not self.members.of(Stage.SERVING):
                self._start_anew()
        if self._awaited():
            return None
        staying = self.members.staying()
        begun = self._outcome.trained or self._outcome.stop is not None
        if begun and not any(member.has_state for member in staying):
            self._short_since = None
            return None  # the outcome decides, once all have left
        self._exits.refuse_others(self._admitted(staying), staying, self._now)
        members = self.members.in_order_of_ranks(staying + self._admitted(staying))
        if len(members) < self._least():
            return self._wait_for_more(len(members))
        hosts = [member.host for member in members]
        pairs = accusations(members)
        cut_off = self._unreachable.judge(pairs, hosts, self.generation, self._now)
        if cut_off is None:
            return self._assign(members)
        why = "the network between it and another host has failed twice"
        self._exits.cut_off(cut_off, why, self._now)
        return self._form_next()

    def _is_faulty(self, position: int) -> bool:
        """Whether members fail there again and again. Then the job has ended, or goes on without
        the host where all of them have failed."""
        left = self.members.newcomers() + self.members.of(Stage.SERVING)
        fault = self._exits.faults.at(
            position, self.generation, self.members.started, alone=not left
        )
        if fault is None:
            return False
        others = [member for member in left if member.host != fault.host]
        go_on = not self._outcome.trained or any(member.has_state for member in others)
        if fault.host is None or not go_on or len(others) < self._least():
            self._end(outcome.repeated(fault))
        else:
            why = f"its members have ended {fault.times} times in a row by one error"
            self._exits.cut_off(fault.host, why, self._now)
        return True

    def _start_anew(self) -> None:
        """Newcomers that warm up on their own would miss what the others do before `run`."""
        alone = [member for member in self.members.newcomers() if not member.meets]
        self._exits.dismiss(alone, "the job starts anew")
        self._progress.met, self._progress.ranks = False, ()
        self._short_since = self._now

    def _least(self) -> int:
        """How many members a generation has at least; at the very start, how many slots."""
        if self._outcome.winds_down:
            return 1
        first = not self.generation and not self._progress.cohort
        return self.policy.processes if first else self.policy.least

    def _wait_for_more(self, there: int) -> None:
        seconds = self.policy.elastic_timeout
        self._short_since = self._now if self._short_since is None else self._short_since
        if self._now >= self._short_since + seconds:
            slots = sum(host.slots for host in self.members.hosts)
            self._end(outcome.too_few(there, self._least(), slots, seconds))

    def _assign(self, ranks: Sequence[Member]) -> None:
        try:
            decision = decide([member.report for member in ranks if member.report is not None])
        except Inconsistent as error:
            return self._end(events.End(1, f"{error}."))
        if self._is_faulty(decision.position):
            return self._form_next()
        numbers = tuple(member.number for member in ranks)
        # The same members again, as after a host that was away for a moment, are no change.
        if self.generation and set(numbers) != set(self._progress.ranks):
            self._progress.resets += 1
            limit = self.policy.reset_limit
            if limit is not None and self._progress.resets > limit:
                return self._end(outcome.reset_limit(limit))
        self._progress.ranks = numbers
        return self._write(ranks, decision)

    def _write(self, ranks: Sequence[Member], decision: Decision) -> None:
        were_up = self._progress.up == self.generation
        patience = self._unreachable.patience(self.policy.silence_seconds, were_up)
        self.generation += 1
        self._outcome.next_generation()
        roles = decision.roles
        entries = [Entry(m.number, m.host, m.slot, roles[m.number], not m.has_state) for m in ranks]
        position, source = decision.position, decision.source
        answers = self._announcements.number
        assignment = Assignment(
            self.generation, tuple(entries), position, source, answers, patience=patience
        )
        self._actions.append(events.WriteAssignment(assignment))
        if self.generation > 2:
            self._actions.append(events.Forget(self.generation - 2))
        self.members.assigned(ranks)
        for member in self.members.of(Stage.SERVING):
            if member not in ranks:
                self._exits.left(member, self._now)
        self._announcements.answered()
        self._exits.take_lost()
        self._breaks, self._short_since = False, None
        self._enter(Phase.FORMING)

    # Starting and ending.

    def _fills(self) -> bool:
        """Whether newcomers are wanted at all."""
        return self.phase is not Phase.ENDED and not self._outcome.winds_down

    def _fill(self) -> None:
        free = self.members.free(self._now)
        if not free:
            return
        there = self.members.of(Stage.COLD, Stage.WARM, Stage.SERVING)
        progress = self._progress
        progress.cohort = progress.cohort and bool(there)
        first = not (progress.met or progress.cohort)
        if first and len(there) + len(free) < self._least():
            return
        if first:
            progress.cohort, self._since = True, self._now
        places = free[: int(min(len(free), self.members.wanted()))]
        ranks = len(places) if self.policy.most is None else self.policy.most - len(there)
        started = [  # the first generation does not wait for spares
            self.members.start(host, slot, not progress.met, awaited=first and number < ranks)
            for number, (host, slot) in enumerate(places)
        ]
        expected = self.members.expected() if started else {}
        for new in started:
            place = expected[new.number]
            self._actions.append(events.Start(new.number, new.host, new.slot, new.meets, place))

    def _end(self, end: events.End) -> None:
        if self.phase is not Phase.ENDED:
            self.phase = Phase.ENDED
            for said in [each for each in self._actions if isinstance(each, events.Say)]:
                if end.sentence.startswith(said.text):  # the last line says it again
                    self._actions.remove(said)
            self._actions.append(end)


class Announcements:
    """When the members are told of a planned change. An assignment answers what was told before it.

    Notices to leave are told at once, as little time may be left, and so are newcomers that are
    ready while no other one starts. Other newcomers wait 2 s for more. So do members whose hosts
    discovery drops: a host that flaps changes nothing.
    """

    def __init__(self) -> None:
        self.number = 0  # of the last notice
        self._leaving: frozenset[int] = frozenset()  # who was told to leave
        self._ready = False  # newcomers were told of
        self._since: float | None = None  # the first change that was not told

    def due(
        self,
        ready: Sequence[Member],
        leaving: Iterable[Member],
        unlisted: Iterable[Member],
        others_start: bool,
        now: float,
    ) -> bool:
        """Whether it is time to tell of newcomers, of those that leave and of those that are to.

        `others_start`: more newcomers are on their way, and there is room for them.
        """
        noticed, away = _numbers(leaving), _numbers(unlisted)
        if noticed - self._leaving or self._leaving - noticed:
            return True
        if not away and (self._ready or not ready):
            self._since = None
            return False
        if not away and not others_start:
            return True
        self._since = now if self._since is None else self._since
        return now >= self._since + TOGETHER_SECONDS

    def notice(
        self,
        generation: int,
        broken: bool,
        lost: tuple[int, ...],
        ready: Sequence[Member],
        leaving: Sequence[Member],
        stop: bool,
        now: float,
    ) -> DriverNotice:
        """The next one. It says all that is true now."""
        self.number += 1
        self._ready = self._ready or bool(ready)
        self._leaving, self._since = _numbers(leaving), None
        return DriverNotice(
            number=self.number,
            generation=generation,
            broken=broken,
            lost=lost,
            ready=tuple(member.number for member in ready),
            leaving=tuple(LeavingMember(m.number, m.seconds_left(now), m.reason) for m in leaving),
            stop=stop,
        )

    def answered(self) -> None:
        """An assignment is written."""
        self._ready, self._since, self._leaving = False, None, frozenset()

    def deadline(self) -> float | None:
        return None if self._since is None else self._since + TOGETHER_SECONDS


def _numbers(members: Iterable[Member]) -> frozenset[int]:
    return frozenset(member.number for member in members)
