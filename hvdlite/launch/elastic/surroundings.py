"""What the job around the driver of an elastic job offers, and how its end is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from hvdlite.launch.console import Console
from hvdlite.launch.elastic import events
from hvdlite.launch.elastic.streams import Streams
from hvdlite.launch.spawn.parties import Starter
from hvdlite.launch.verdict import Verdict
from hvdlite.launch.watch import JobObserver


@dataclass
class ElasticVerdict(Verdict):
    """The job's end, as the machine or a signal has decided it."""

    end: events.End | None = None
    ranks: tuple[int, ...] = ()  # the members of the last generation, by rank
    stopped: int = 0  # the signal on which members leave at their next boundary

    def status(self) -> int:
        if self.interrupted:
            return 128 + self.interrupted
        return self.end.status if self.end is not None else 1

    def sentence(self, command: Sequence[str]) -> str:
        if self.interrupted:
            return super().sentence(command)
        said = self.end.sentence if self.end is not None else "the job has ended before its time."
        return f"hvdliterun: {said}" if said else ""


@dataclass(frozen=True)
class Surroundings:
    """What the job around the driver offers."""

    console: Console
    log: Callable[[str], None]
    command: Sequence[str]
    start: Starter  # of members of this host
    near: Collection[str]  # names of this host
    several_hosts: bool  # other hosts are named, or may be later
    streams: Streams
    observer: JobObserver
    torch_run: str  # for --torch-env: a name that no other job has
    verdict: ElasticVerdict
