"""What the page shows of a job: numbers and texts, from wherever they came. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hvdlite.base.processors import Taken
from hvdlite.observe.report.details import Details


@dataclass(frozen=True)
class Point:
    """A rank at one time; None: not known."""

    step: float | None = None  # seconds
    waiting: float | None = None  # the share of the time in which it waited for others
    bytes: float | None = None  # per second
    cores: float | None = None
    memory: float | None = None


@dataclass(frozen=True)
class Sample:
    """All ranks at one time. It is the mean of `seconds` up to `time`."""

    time: float  # since 1970
    seconds: float
    points: Mapping[int, Point]


@dataclass(frozen=True)
class Event:
    time: float
    text: str


@dataclass(frozen=True)
class Totals:
    """Sums of a rank's counters."""

    operations: float = 0
    failures: float = 0
    bytes: float = 0
    batches: float = 0
    fused: float = 0
    in_full: float = 0  # requests with all their words, and by number
    by_number: float = 0
    negotiating: float = 0  # seconds
    moving: float = 0
    carried: Mapping[str, float] = field(default_factory=dict)  # batches by algorithm
    interfaces: Mapping[str, float] = field(default_factory=dict)  # bytes that were sent


@dataclass(frozen=True)
class JobEnd:
    """How the job has ended. `sentence`: what hvdliterun said; empty: all went well."""

    status: int
    sentence: str = ""


@dataclass(frozen=True)
class Facts:
    title: str = ""
    began: float | None = None
    ended: float | None = None
    end: JobEnd | None = None  # None: not known, or the job still runs
    running: bool = False
    hosts: Mapping[int, str] = field(default_factory=dict)  # by rank
    samples: Sequence[Sample] = ()
    active: float = 0.0  # seconds in which collectives ended
    steps: float = 0.0  # how many, about
    totals: Mapping[int, Totals] = field(default_factory=dict)
    waited_for: Mapping[int, float] = field(default_factory=dict)  # seconds, by rank
    details: Details | None = None
    taken: Sequence[tuple[float, Taken]] = ()  # for how many seconds, the longest first
    world_changes: int = 0
    events: Sequence[Event] = ()
    notes: Sequence[str] = ()  # about the page's sources

    def host(self, rank: int) -> str:
        """Without the number of an elastic job's member, which hvdliterun adds."""
        return self.hosts.get(rank, "").partition(", member ")[0]

    @property
    def several_hosts(self) -> bool:
        return len({self.host(rank) for rank in self.hosts}) > 1

    @property
    def sum(self) -> Totals:
        """Of rank 0, or of the first rank that has numbers: operations are of all ranks."""
        return self.totals[min(self.totals)] if self.totals else Totals()
