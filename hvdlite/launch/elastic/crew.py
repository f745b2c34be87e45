"""The processes of an elastic job, the hosts' slots, and which slots are to be filled. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from hvdlite.launch.collapse import ranges
from hvdlite.launch.elastic.cooldown import Cooldowns
from hvdlite.launch.elastic.placing import Candidate, free_slots, in_order
from hvdlite.launch.hosts import Host
from hvdlite.rendezvous.roll import Place, Report, places


@dataclass(frozen=True)
class Policy:
    """What the user has chosen: the flags of the same names."""

    processes: int  # -np
    least: int  # --min-np
    most: int | None = None  # --max-np
    spares: int = 0
    elastic_timeout: float = 600.0
    leave_seconds: float = 30.0
    reset_limit: int | None = None
    cooldown_range: tuple[float, float] | None = None
    failure_unit: str = "slot"  # or "host"
    silence_seconds: float = 10.0  # HVDLITE_HEARTBEAT_SECONDS


class Stage(Enum):
    COLD = "cold"  # was started, has said nothing
    WARM = "warm"  # a newcomer that waits for a generation
    SERVING = "serving"  # is in the latest roll
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
    leave_by: float | None = None  # it has been asked to leave, or told that it has to
    noticed: bool = False  # asked: whatever discovery says
    reason: str = ""
    suspect_until: float | None = None  # accused of silence: to report by then
    ended_for: str = ""  # why hvdliterun has ended it

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

    def seconds_left(self, now: float) -> float:
        return max(0.0, (self.leave_by or 0.0) - now)


class Crew:
    """The table of members. A process stays in it until it is reaped, and its slot stays taken."""

    def __init__(self, policy: Policy, chance: Callable[[], float]) -> None:
        self.policy = policy
        self.members: dict[int, Member] = {}
        self.hosts: tuple[Host, ...] = ()
        self.at_boundary = False  # the members stand at the end of a step, and no loss is known
        self.departing: set[str] = set()  # hosts that were asked to leave: nothing starts there
        self._order: list[str] = []  # of the hosts of the last generation, then of others
        self._slots: dict[str, int] = {}
        self.started = 0  # the newest member
        by_host = policy.failure_unit == "host"
        for_good = by_host and policy.cooldown_range is None
        self._after_failure = Cooldowns(policy.cooldown_range, chance, for_good)
        self._after_leave = Cooldowns(policy.cooldown_range, chance)

    def of(self, *stages: Stage) -> list[Member]:
        return [member for member in self.members.values() if member.stage in stages]

    def on(self, host: str) -> list[Member]:
        return [member for member in self.members.values() if member.host == host]

    def found(self, hosts: tuple[Host, ...]) -> None:
        self.hosts = hosts
        self._slots = {host.name: host.slots for host in hosts}
        self.departing &= self._slots.keys()
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
        return {_named(place): seconds for place, seconds in running.items()}

    def cooled(self, now: float) -> float | None:
        """When a slot may be filled next that may not be now."""
        ends = [self._after_failure.next_end(now), self._after_leave.next_end(now)]
        return min((end for end in ends if end is not None), default=None)

    def free(self, now: float) -> list[tuple[str, int]]:
        """The slots that may be filled now, and are wanted."""

        def empty(host: str, slot: int) -> bool:
            failed = any(self._after_failure.empty(each, now) for each in (host, (host, slot)))
            return failed or self._after_leave.empty((host, slot), now)

        taken = {(member.host, member.slot) for member in self.members.values()}
        hosts = [host for host in self.hosts if host.name not in self.departing]
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
        self.members[member.number] = member
        return member

    def in_order_of_ranks(self, members: Iterable[Member]) -> list[Member]:
        candidates = [Candidate(m.number, m.host, m.slot, m.has_state, m.rank) for m in members]
        return [self.members[each.member] for each in in_order(candidates, self._order)]

    def expected(self) -> dict[int, Place]:
        """By member, its place if all came that are wanted now."""
        working = self.of(Stage.COLD, Stage.WARM, Stage.SERVING)
        return places([(m.number, m.host, m.slot) for m in self.in_order_of_ranks(working)])

    def rolled(self, ranks: Sequence[Member]) -> None:
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


def _named(place: str | tuple[str, int]) -> str:
    return place if isinstance(place, str) else f"{place[0]}:{place[1]}"
