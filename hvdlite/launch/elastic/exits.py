"""How members end: they exit, are lost, are killed, or leave. Pure: times are handed in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hvdlite.launch.elastic.events import Action, HostLeaves, HostLost, Kill, Look, Say
from hvdlite.launch.elastic.members import Member, Members, Stage
from hvdlite.launch.elastic.outcome import Faults, MemberFailure, Outcome
from hvdlite.launch.hosts import Host
from hvdlite.rendezvous.documents import difference

# What is told of a host of which nothing is heard, as ssh's status is.
_HOST_STATUS = 255
_KILLED_STATUS = 137


class Exits:
    """A member that is lost is out for good. Its process is killed and reaped before its slot is
    given again."""

    def __init__(self, members: Members, outcome: Outcome, actions: list[Action]) -> None:
        """`actions`: what is to be done is appended."""
        self.faults = Faults()
        self.stopped_members = StoppedMembers(members.policy.silence_seconds)
        self.lost: list[int] = []  # members of this generation, of which no notice tells
        self._members = members
        self._outcome = outcome
        self._actions = actions

    def take_lost(self) -> tuple[int, ...]:
        """A notice tells of them, or an assignment is made without them."""
        lost, self.lost = tuple(self.lost), []
        return lost

    def ended(self, member: Member, failure: MemberFailure, now: float) -> None:
        """Its process is gone."""
        outcome, status = self._outcome, failure.status
        if member.ended_for:
            failure = replace(failure, how=f"was ended: {member.ended_for}")
        self._members.remove(member)
        if member.stage is Stage.RETURNED:
            outcome.ended_behind_return(failure)
        elif status == 0 and not outcome.trained and member.in_first_part:
            # A program that does without `run`, or even without the others, ends well by itself.
            if member.stage is Stage.SERVING:
                outcome.ended_well()
            else:
                outcome.ended_early(member, failure)
        elif member.stage is Stage.LEFT:
            self._members.rest(member, now)
        elif member.stage is not Stage.LOST:
            self.lose(member, failure, now)

    def reconsider(self, now: float) -> None:
        """Those that have ended with 0 before `init()` are lost if another member has called it."""
        if self._members.of(Stage.WARM, Stage.SERVING):
            for member, failure in self._outcome.take_early():
                self.lose(member, failure, now)

    def host_lost(self, event: HostLost, now: float) -> None:
        self._members.host_lost(event.host, now)
        if event.reason:
            self._actions.append(Say(event.reason))
        gone = self._members.on(event.host)
        for member in gone:
            self._members.remove(member)
        for member in gone:
            how = "was lost with its host"
            self.ended(member, MemberFailure(member.number, member.host, _HOST_STATUS, how), now)

    def host_leaves(self, event: HostLeaves, now: float) -> None:
        """Nothing starts on it until it is named anew, or until it was lost."""
        self._members.host_leaves(event.host)
        self.asked_to_leave(self._members.on(event.host), event.reason, event.seconds, now)

    def hosts_found(self, hosts: tuple[Host, ...]) -> None:
        """The latest answer of discovery."""
        self._members.found(hosts)
        listed = self._members.listed()
        gone = [each for each in self._members.newcomers() if each.number not in listed]
        self.dismiss(gone, "its host has fewer slots")

    def recall(self) -> None:
        """Members that were told to leave for want of slots stay if there are enough again.

        This happens if discovery reports more slots, or if another member leaves. It also happens
        if all members that hold the state would leave.
        """
        told = [member for member in self._members.leaving() if not member.noticed]
        if not told:
            return
        listed = self._members.listed()
        serving = self._members.of(Stage.SERVING)
        stay = [each for each in serving if each.leave_by is None or each.number in listed]
        state_stays = any(member.has_state for member in stay)
        for member in told:
            if member.number in listed or not state_stays:
                member.leave_by = None

    def lose(self, member: Member, failure: MemberFailure, now: float) -> None:
        """Its slot, or its host, cools down."""
        was = member.lose()
        self._members.cool(member, now)
        if was is Stage.SERVING:
            self.lost.append(member.number)
        self._outcome.lost(failure, was is Stage.SERVING, was is Stage.COLD)
        if was is Stage.SERVING or not self._outcome.trained:
            self.faults.note(failure)
        self._actions.append(Say(failure.sentence()))
        if self._members.policy.failure_unit == "host":
            self.put_out(member.host, "a member of its host has failed", now)
        self.recall()

    def kill(self, member: Member, why: str, now: float, politely: bool = False) -> None:
        self._kill(member, why, politely)
        failure = MemberFailure(member.number, member.host, _KILLED_STATUS, f"was ended: {why}")
        self.lose(member, failure, now)

    def _kill(self, member: Member, why: str, politely: bool) -> None:
        member.ended_for = why
        self._actions.append(Kill(member.number, why, politely))

    def look(self, waits: bool, now: float) -> None:
        """Looks for stopped members, from time to time. `waits`: the job waits for a survivor. It
        waits for members that have left as well: their slots are taken until they end."""
        waits = waits or self._outcome.returned or bool(self._members.of(Stage.LEFT))
        if self.stopped_members.is_due(waits, now):
            self._actions.append(Look())

    def stopped(self, member: Member, now: float) -> None:
        """A look has found it stopped. One whose function has returned keeps only the job's end
        waiting."""
        returned = member.stage is Stage.RETURNED
        if returned and self._members.of(Stage.SERVING):
            return
        if not self.stopped_members.found(member.number, now):
            return
        why = "it is stopped (SIGSTOP, a debugger), and others wait for it"
        if returned or member.stage is Stage.LEFT:
            self._kill(member, why, politely=not returned)
        elif member.stage in (Stage.COLD, Stage.WARM, Stage.SERVING):
            self.kill(member, why, now)

    def refuse(self, newcomer: Member, why: str, now: float) -> None:
        """It cannot be in this job. Its slot cools down."""
        if newcomer.stage in (Stage.COLD, Stage.WARM):
            self._kill(newcomer, "it is refused", politely=True)
            how = f"is refused: {why}"
            failure = MemberFailure(newcomer.number, newcomer.host, 1, how, error=why)
            self.lose(newcomer, failure, now)

    def refuse_others(
        self, newcomers: Iterable[Member], staying: Iterable[Member], now: float
    ) -> None:
        """Those whose settings or tensors are others than those of the job's members."""
        reports = [member.report for member in staying if member.has_state and member.report]
        if not reports:
            return
        for newcomer in newcomers:
            if newcomer.report is not None and not newcomer.report.meets:
                why = difference(newcomer.report, reports[0])
                if why:
                    self.refuse(newcomer, why, now)

    def cut_off(self, host: str, why: str, now: float) -> None:
        """A host without which the others can go on."""
        self._members.cool_host(host, now)
        self._actions.append(Say(f"host {host} is put out of the job: {why}."))
        self.put_out(host, why, now)

    def put_out(self, host: str, why: str, now: float) -> None:
        """All that still work on a host."""
        for member in self._members.on(host):
            if member.stage in (Stage.COLD, Stage.WARM, Stage.SERVING):
                self.kill(member, why, now)

    def dismiss(self, newcomers: Iterable[Member], why: str) -> None:
        """They are of no more use, by no fault of theirs."""
        for member in newcomers:
            if member.stage in (Stage.COLD, Stage.WARM):
                member.lose()
                self._kill(member, why, politely=True)

    def asked_to_leave(
        self, members: Iterable[Member], reason: str, seconds: float | None, now: float
    ) -> None:
        """The first notice of a member counts."""
        left = self._members.policy.leave_seconds if seconds is None else seconds
        for member in members:
            if member.stage is Stage.SERVING and not member.noticed:
                member.noticed = True
                member.told_to_leave(now + left, reason)
            self.dismiss([member], "it was asked to leave")

    def left(self, member: Member, now: float) -> None:
        """It has left its generation; its exit ends nothing."""
        member.left(now + self._members.policy.leave_seconds)

    def overdue(self, now: float) -> None:
        """Those that have not left, or not reported, in time."""
        for member in list(self._members.by_number.values()):
            if member.suspect_until is not None and now >= member.suspect_until:
                self.kill(member, "it is silent: engines hear no heartbeat of it", now)
            elif member.leave_by is not None and now >= member.leave_by:
                member.leave_by = None
                if member.stage is Stage.SERVING:
                    self.kill(member, "it has not left in time", now, politely=True)
                else:
                    self._kill(member, "it has not ended in time", politely=True)


LOOKS = 4  # within the time that a process may be stopped
_MISSED = 1  # so many answers may come late


class StoppedMembers:
    """Members that are stopped, by SIGSTOP or a debugger, while others wait for them.

    Engines notice such a process because its heart does not beat. Between two generations there are
    no engines, so the driver looks at the processes itself. `seconds`: a process may be stopped for
    so long; 0: for ever.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next: float | None = None  # look
        self._looks = 0
        # By member: since when it is stopped, and the last look that found it so.
        self._found: dict[int, tuple[float, int]] = {}

    def is_due(self, waits: bool, now: float) -> bool:
        """Whether it is time to look. `waits`: a member is waited for."""
        if not waits or not self._seconds:
            self._next = None
            self._found.clear()
            return False
        due = self._next is not None and now >= self._next
        if due or self._next is None:
            self._next = now + self._seconds / LOOKS
        self._looks += due
        return due

    def deadline(self) -> float | None:
        return self._next

    def found(self, member: int, now: float) -> bool:
        """A look has found it stopped. Returns whether it was stopped for too long."""
        since, last = self._found.get(member, (now, self._looks))
        if self._looks - last > 1 + _MISSED:
            since = now
        self._found[member] = since, self._looks
        return self._next is not None and now >= since + self._seconds
