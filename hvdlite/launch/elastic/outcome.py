"""When an elastic job is over, what its status is, and whether its program is at fault. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from hvdlite.launch.elastic.events import End, Ended
from hvdlite.launch.elastic.members import Member, Members, Stage
from hvdlite.launch.verdict import ended_how, is_consequence

IN_A_ROW = 3
_CANNOT_START = 127
# Sent from outside: by the kernel when memory ran out, a user, a scheduler, a closed terminal.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
ASKED_TO_END = 128 + signal.SIGTERM
# Programs and people look for Horovod's words.
RESET_LIMIT_EXCEEDED = (
    "Horovod was shutdown because number of resets during elastic job exceeded limit: {}"
)


@dataclass(frozen=True)
class MemberFailure:
    """How a member has ended that should have gone on."""

    member: int
    host: str
    status: int
    how: str  # for people: "ended with status 1: ValueError: bad"
    error: str = ""  # the exception that ended it, or why it cannot be in the job

    @property
    def is_consequence(self) -> bool:
        """Whether another member's end was the cause."""
        return is_consequence(self.how.encode(errors="replace"))

    def sentence(self) -> str:
        return f"member {self.member} on {self.host} {self.how.removesuffix('.')}."


def of_process(member: int, host: str, ended: Ended, where: str = "") -> MemberFailure:
    """`where`: " before hvd.init()", for people."""
    words = ended.last_line if ended.status else ""  # one that ended well has said nothing of it
    how = ended_how(ended.signal, f"ended with status {ended.status}{where}", words)
    outside = ended.signal in _FROM_OUTSIDE
    error = ended.last_line if ended.is_error and not outside else ""
    return MemberFailure(member, host, ended.status, how, error)


def not_started(member: int, host: str, reason: str) -> MemberFailure:
    how = f"ended with status {_CANNOT_START}: {reason}"
    return MemberFailure(member, host, _CANNOT_START, how, error=reason)


@dataclass(frozen=True)
class Fault:
    """The same exception, again and again at one position."""

    failure: MemberFailure  # the last one
    times: int
    host: str | None  # where all failed, if that is one host


@dataclass
class _Row:
    """Those that have ended by one exception at the present position."""

    times: int = 0  # those that ended together count once
    members: int = 0
    hosts: set[str] = field(default_factory=set)
    generation: int = -1  # of the last that counted
    started: int = 0  # the newest member that there was then

    def count(self, failure: MemberFailure, generation: int, started: int) -> None:
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
        self._new: list[MemberFailure] = []
        self._position = 0
        self._rows: dict[str, _Row] = {}  # by exception

    def note(self, failure: MemberFailure) -> None:
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


@dataclass
class Outcome:
    """What has happened to the members so far."""

    assigned: bool = False  # there was a generation
    trained: bool = False  # a member has had the state and called its function
    returned: bool = False  # a member's function has: no newcomer is started any more
    succeeded: bool = False  # a member ended well
    # Members that ended with 0 before `init()`, while no other member was there.
    early: list[tuple[Member, MemberFailure]] = field(default_factory=list)
    failed_early: MemberFailure | None = None  # the first that failed before `init()`
    # The first that failed behind its function's return.
    failed_later: MemberFailure | None = None
    failures: list[MemberFailure] = field(default_factory=list)  # since the latest assignment
    stop: int | None = None  # the launcher's status once all have left

    # What the state machine and the exits note.

    def next_generation(self) -> None:
        self.assigned = True
        self.failures.clear()

    def asked_to_stop(self, status: int) -> None:
        self.stop = status

    def trains(self) -> None:
        self.trained = True

    def function_returned(self) -> None:
        self.returned = True

    def ended_well(self) -> None:
        """A program without `run` has ended well."""
        self.returned = self.succeeded = True

    def ended_behind_return(self, failure: MemberFailure) -> None:
        """The process of a member whose function has returned is gone."""
        self.succeeded = self.succeeded or failure.status == 0
        if failure.status:
            self.failed_later = self.failed_later or failure

    def ended_early(self, member: Member, failure: MemberFailure) -> None:
        self.early.append((member, failure))

    def take_early(self) -> list[tuple[Member, MemberFailure]]:
        """Another member has called `init()`: those that ended before it count as lost."""
        early, self.early, self.failed_early = self.early, [], None
        return early

    def lost(self, failure: MemberFailure, in_generation: bool, before_init: bool) -> None:
        if in_generation:
            self.failures.append(failure)
        if before_init:
            self.failed_early = self.failed_early or failure

    @property
    def winds_down(self) -> bool:
        """No newcomer is started or admitted, and there is no minimum any more."""
        return self.returned or bool(self.early) or self.stop is not None

    def cause(self) -> MemberFailure | None:
        """Of those that ended the last generation, the first that is no consequence."""
        causes = [failure for failure in self.failures if not failure.is_consequence]
        return next(iter([*causes, *self.failures]), None)

    def end(self, members: Members) -> End | None:
        """The job's end, if it has come."""
        if members.of(Stage.RETURNED, Stage.LEFT):
            return None
        serving = members.of(Stage.SERVING)
        waiting = serving if self.assigned else members.of(Stage.COLD, Stage.WARM)
        if self.succeeded and not waiting:
            return self._finished()
        if self.early and not members.newcomers() and not serving:
            failed = self.failed_early
            return End(failed.status or 1, failed.sentence()) if failed else End(0)
        if self.stop is not None and not serving:
            return self.stopped()
        if not self.trained or any(each.has_state or each.report is None for each in serving):
            return None
        return self._finished() if self.succeeded else self._no_survivor()

    def stopped(self) -> End:
        return End(self.stop or 0, "the job was asked to end, and its members have left.")

    def _finished(self) -> End:
        if self.failed_later is not None:
            return End(self.failed_later.status, self.failed_later.sentence())
        return End(0)

    def _no_survivor(self) -> End:
        cause = self.cause()
        if self.failed_later is not None:
            return self._finished()
        if cause is None:
            return End(ASKED_TO_END, "all members were asked to leave, and have left.")
        return End(
            cause.status or 1,
            f"{cause.sentence()} No member is left that has the state of the training.",
        )


def repeated(fault: Fault) -> End:
    """The program's own fault."""
    return End(
        fault.failure.status or 1,
        f"{fault.failure.sentence()} That is the program's fault, or its data's: members have "
        f"ended so {fault.times} times in a row at one position.",
    )


def reset_limit(limit: int) -> End:
    return End(1, RESET_LIMIT_EXCEEDED.format(limit))


def too_few(there: int, least: int, slots: int, seconds: float) -> End:
    return End(
        1,
        f"for {seconds:g} s there were only {there} of the {least} processes that the job needs; "
        f"its hosts have {slots} slots. Fewer may do with --min-np, and --elastic-timeout is how "
        "long the job waits.",
    )
