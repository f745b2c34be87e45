"""The processes of an elastic job, the hosts' slots, and which slots are to be filled. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from hvdlite.launch.collapse import ranges
from hvdlite.launch.elastic.options import Policy
from hvdlite.launch.hosts import Host
from hvdlite.rendezvous.documents import RankNumbers, Report, rank_numbers


class Stage(Enum):
    COLD = "cold"  # was started, has said nothing
    WARM = "warm"  # a newcomer that waits for a generation
    SERVING = "serving"  # is in the latest assignment
    RETURNED = "returned"  # its function has returned; its process goes on
    LEFT = "left"  # has left at a boundary; its process ends
    LOST = "lost"  # is out for good; its process is being killed


@dataclass
class Member:
    number: int
    host: str
    slot: int
    meets: bool  # waits in init() for the first generation
    awaited: bool  # the first generation waits for it
    stage: Stage = Stage.COLD
    report: Report | None = None  # into the next generation
    rank: int = -1
    inside: bool = False  # its engine is up
    has_state: bool = False
    leave_by: float | None = None  # by when it has to leave, if it was asked or told to
    noticed: bool = False  # asked: whatever discovery says
    reason: str = ""
    suspect_until: float | None = None  # accused of silence: to report by then
    ended_for: str = ""  # why hvdliterun ended it

    @property
    def is_missing(self) -> bool:
        """Whether it is in the generation and has not reported."""
        return self.stage is Stage.SERVING and self.report is None

    @property
    def in_first_part(self) -> bool:
        """Whether it is in the program's part before `run`, and not in `init()`."""
        if self.stage is Stage.SERVING:
            return self.inside and self.report is None and not self.has_state
        return self.stage is Stage.COLD and self.meets

    def waits_for(self, report: Report) -> bool:
        """Whether a newcomer's report counts. One that still waits in init() may be too late."""
        new = self.stage in (Stage.COLD, Stage.WARM) and report.generation == 0
        return new and report.newcomer and (self.meets or not report.meets)

    def suspect(self, until: float) -> None:
        """An engine accuses it of silence. The first accusation counts."""
        self.suspect_until = self.suspect_until or until

    def told_to_leave(self, by: float, reason: str) -> None:
        self.leave_by, self.reason = by, reason

    def reports(self, report: Report) -> None:
        """A survivor of the generation wants into the next one."""
        self.report, self.suspect_until = report, None
        self.has_state = not report.newcomer

    def returned(self) -> None:
        """The program's function has returned."""
        self.stage, self.leave_by, self.suspect_until = Stage.RETURNED, None, None

    def left(self, by: float) -> None:
        """It leaves its generation, and has to end in time."""
        self.stage, self.suspect_until = Stage.LEFT, None
        self.leave_by = by if self.leave_by is None else self.leave_by

    def lose(self) -> Stage:
        """It is out for good. Returns what it was."""
        was, self.stage = self.stage, Stage.LOST
        self.leave_by = self.suspect_until = None
        return was

    def warms_up_alone(self) -> None:
        """It was started for the first generation, and is too late for it."""
        self.meets, self.stage, self.report = False, Stage.COLD, None

    def seconds_left(self, now: float) -> float:
        return max(0.0, (self.leave_by or 0.0) - now)


class Members:
    """The table of members. A process stays in it until it is reaped, and its slot stays taken."""

    def __init__(self, policy: Policy, chance: Callable[[], float]) -> None:
        self.policy = policy
        self.by_number: dict[int, Member] = {}
        self.hosts: tuple[Host, ...] = ()
        self.at_boundary = False  # the members stand at the end of a step, and no loss is known
        self._leaving_hosts: set[str] = set()  # that were asked to leave: nothing starts there
        self._order: list[str] = []  # of the hosts of the last generation, then of others
        self._slots: dict[str, int] = {}
        self.started = 0  # the newest member
        by_host = policy.failure_unit == "host"
        for_good = by_host and policy.cooldown_range is None
        self._after_failure = Cooldowns(policy.cooldown_range, chance, for_good)
        self._after_leave = Cooldowns(policy.cooldown_range, chance)

    def of(self, *stages: Stage) -> list[Member]:
        return [member for member in self.by_number.values() if member.stage in stages]

    def on(self, host: str) -> list[Member]:
        return [member for member in self.by_number.values() if member.host == host]

    def come_to_boundary(self) -> None:
        """The members report because all have ended a step."""
        self.at_boundary = True

    def generation_broke(self) -> None:
        """The members report because their generation has ended by an error."""
        self.at_boundary = False

    def remove(self, member: Member) -> None:
        """Its process is gone."""
        self.by_number.pop(member.number, None)

    def host_leaves(self, host: str) -> None:
        """Nothing starts on it until discovery drops it, or until it is lost."""
        self._leaving_hosts.add(host)

    def host_lost(self, host: str, now: float) -> None:
        self.cool_host(host, now)
        self._leaving_hosts.discard(host)

    def found(self, hosts: tuple[Host, ...]) -> None:
        self.hosts = hosts
        self._slots = {host.name: host.slots for host in hosts}
        self._leaving_hosts &= self._slots.keys()
        self._order += [host.name for host in hosts if host.name not in self._order]

    def listed(self) -> set[int]:
        """The members for which there are slots, as many as discovery names.

        Which slots these are does not matter, because a process never changes its slot. Where a
        host has fewer than before, empty slots go first, then those of newcomers, and those of
        trained members last.
        """
        room = dict(self._slots)
        working = self.of(Stage.COLD, Stage.WARM, Stage.SERVING)
        found = set()
        for member in sorted((each for each in working if not each.noticed), key=_last_to_go):
            if room.get(member.host, 0) > 0:
                room[member.host] -= 1
                found.add(member.number)
        return found

    def cool(self, member: Member, now: float) -> None:
        """Its slot, or its host, stays empty for a while."""
        if self.policy.failure_unit == "host":
            self.cool_host(member.host, now)
        else:
            self._after_failure.failed((member.host, member.slot), now)

    def cool_host(self, host: str, now: float) -> None:
        self._after_failure.failed(host, now)

    def rest(self, member: Member, now: float) -> None:
        """A slot whose member has left stays empty for a while, and is never out for good."""
        self._after_leave.failed((member.host, member.slot), now)

    def cooling(self, now: float) -> dict[str, float]:
        """For people: by host or host:slot, for how many seconds it stays empty."""
        running = {**self._after_leave.running(now), **self._after_failure.running(now)}
        return {_named(unit): seconds for unit, seconds in running.items()}

    def cooled(self, now: float) -> float | None:
        """When a slot may be filled next that may not be now."""
        ends = [self._after_failure.next_end(now), self._after_leave.next_end(now)]
        return min((end for end in ends if end is not None), default=None)

    def free(self, now: float) -> list[tuple[str, int]]:
        """The slots that may be filled now, and are wanted."""

        def empty(host: str, slot: int) -> bool:
            failed = any(self._after_failure.empty(each, now) for each in (host, (host, slot)))
            return failed or self._after_leave.empty((host, slot), now)

        taken = {(member.host, member.slot) for member in self.by_number.values()}
        hosts = [host for host in self.hosts if host.name not in self._leaving_hosts]
        beyond = Counter(host for host, slot in taken if slot >= self._slots.get(host, 0))
        return list(free_slots(hosts, taken, empty, beyond))

    def wanted(self) -> float:
        """How many more processes there may be."""
        if self.policy.most is None:
            return math.inf
        working = self.of(Stage.COLD, Stage.WARM, Stage.SERVING)
        staying = [member for member in working if member.leave_by is None]
        return max(0, self.policy.most + self.policy.spares - len(staying))

    def staying(self) -> list[Member]:
        """The members of the generation that are in the next one, too.

        Those that leave stay if no other one has the state: they go on to the next boundary.
        So do those that came to a boundary before they had heard that they leave: the program's
        leave callbacks are called at the next one.
        """
        serving = self.of(Stage.SERVING)
        if self.at_boundary:
            return serving
        staying = [member for member in serving if member.leave_by is None]
        if any(member.has_state for member in staying):
            return staying
        return [member for member in serving if member.leave_by is None or member.has_state]

    def leaving(self) -> list[Member]:
        """Those of the generation that were asked or told to leave."""
        serving = self.of(Stage.SERVING)
        return [member for member in serving if member.leave_by is not None]

    def unlisted(self) -> list[Member]:
        """Those that stay and have no slot any more, unless the state would go too."""
        listed = self.listed()
        staying = [m for m in self.of(Stage.SERVING) if m.leave_by is None]
        if not any(member.has_state and member.number in listed for member in staying):
            return []
        return [member for member in staying if member.number not in listed]

    def newcomers(self) -> list[Member]:
        return self.of(Stage.COLD, Stage.WARM)

    def start(self, host: str, slot: int, meets: bool, awaited: bool) -> Member:
        self.started += 1
        member = Member(self.started, host, slot, meets, awaited)
        self.by_number[member.number] = member
        return member

    def in_order_of_ranks(self, members: Iterable[Member]) -> list[Member]:
        return in_order(members, self._order)

    def expected(self) -> dict[int, RankNumbers]:
        """By member, its numbers if all came that are wanted now."""
        working = self.of(Stage.COLD, Stage.WARM, Stage.SERVING)
        return rank_numbers([(m.number, m.host, m.slot) for m in self.in_order_of_ranks(working)])

    def assigned(self, ranks: Sequence[Member]) -> None:
        """A generation: the members have the ranks of their order."""
        self.at_boundary = False
        for rank, member in enumerate(ranks):
            member.stage, member.rank = Stage.SERVING, rank
            member.report, member.inside, member.suspect_until = None, False, None
        hosts = list(dict.fromkeys(member.host for member in ranks))
        self._order = hosts + [host.name for host in self.hosts if host.name not in hosts]


def listed(members: Iterable[Member]) -> str:
    """Returns "members 1-3 on a, member 4 on b", for people."""
    by_host: dict[str, list[int]] = {}
    for member in members:
        by_host.setdefault(member.host, []).append(member.number)
    return ", ".join(
        f"member{'' if len(numbers) == 1 else 's'} {ranges(numbers)} on {host}"
        for host, numbers in by_host.items()
    )


def _last_to_go(member: Member) -> tuple[bool, bool, bool, int]:
    """Where slots are taken away, the first in this order keep theirs."""
    is_newcomer, is_told = member.stage is not Stage.SERVING, member.leave_by is not None
    return is_newcomer, not member.has_state, is_told, member.slot


def _named(unit: FailureUnit) -> str:
    return unit if isinstance(unit, str) else f"{unit[0]}:{unit[1]}"


def free_slots(
    hosts: Iterable[Host],
    taken: frozenset[tuple[str, int]] | set[tuple[str, int]],
    empty: Callable[[str, int], bool],
    beyond: Mapping[str, int],
) -> Iterator[tuple[str, int]]:
    """The slots that may be filled now, host by host and from below.

    While a lower slot cools down, the free ones above it wait: so a newcomer's local rank is its
    slot, and no two members take one GPU. `beyond`: by host, how many processes are in slots that
    it no longer has. The highest free slots stay empty for them.
    """
    for host in hosts:
        free = [slot for slot in range(host.slots) if (host.name, slot) not in taken]
        for slot in free[: max(0, len(free) - beyond.get(host.name, 0))]:
            if empty(host.name, slot):
                break
            yield host.name, slot


def in_order(members: Iterable[Member], hosts: Sequence[str]) -> list[Member]:
    """The order of ranks. `hosts`: those of the last generation in their order, then new ones.

    Survivors have the state. A host without survivors goes behind those with survivors, so rank 0
    is a survivor. Within a host survivors keep their order, and newcomers follow by slot.
    """
    members = list(members)
    with_survivors = {member.host for member in members if member.has_state}
    places = {host: place for place, host in enumerate(hosts)}

    def key(member: Member) -> tuple[bool, int, bool, int, int]:
        order = member.rank if member.has_state else member.slot
        place = places.get(member.host, len(places))
        is_behind = member.host not in with_survivors
        return is_behind, place, not member.has_state, order, member.number

    return sorted(members, key=key)


#: What a failure empties: a host, or a host and a slot.
FailureUnit = str | tuple[str, int]

DEFAULT_RANGE = (1.0, 60.0)
FORGET_SECONDS = 600.0
_FOR_GOOD = math.inf


@dataclass
class _CooldownRecord:
    failures: int
    last: float
    until: float


class Cooldowns:
    """How long which hosts and slots stay empty after a failure. Times and chance are handed in.

    With a range (MIN, MAX) the k-th failure, counted from 0, empties a unit for MIN * 2**k
    and up to MIN more by chance, but never longer than MAX.
    Without one it is 1 s, doubled by each failure up to 60 s; chance has no part in it.
    Failures are forgotten after 10 minutes without one.
    A failure of an empty unit does not extend its time.
    """

    def __init__(
        self,
        seconds: tuple[float, float] | None = None,
        chance: Callable[[], float] = lambda: 0.0,
        for_good: bool = False,
    ) -> None:
        """`chance` gives numbers from 0 to 1. `for_good`: a unit stays empty for ever."""
        self._least, self._most = seconds or DEFAULT_RANGE
        self._chance = chance if seconds else lambda: 0.0
        self._for_good = for_good
        self._records: dict[FailureUnit, _CooldownRecord] = {}

    def failed(self, unit: FailureUnit, now: float) -> float:
        """The unit is empty from now on. Returns for how many seconds."""
        record = self._records.get(unit)
        if record is None or now - max(record.last, record.until) >= FORGET_SECONDS:
            record = self._records[unit] = _CooldownRecord(0, now, now)
        if now >= record.until:
            record.until = now + self._seconds(record.failures)
            record.failures += 1
        record.last = now
        return record.until - now

    def empty(self, unit: FailureUnit, now: float) -> bool:
        record = self._records.get(unit)
        return record is not None and now < record.until

    def running(self, now: float) -> dict[FailureUnit, float]:
        """For how many seconds which units are still empty."""
        ends = {unit: record.until - now for unit, record in self._records.items()}
        return {unit: seconds for unit, seconds in ends.items() if seconds > 0}

    def next_end(self, now: float) -> float | None:
        """When the next unit may be filled again."""
        ends = [record.until for record in self._records.values() if now < record.until < _FOR_GOOD]
        return min(ends, default=None)

    def _seconds(self, failures: int) -> float:
        if self._for_good:
            return _FOR_GOOD
        doubled = self._least * 2.0 ** min(failures, 64)
        return min(max(doubled + self._least * self._chance(), self._least), self._most)
