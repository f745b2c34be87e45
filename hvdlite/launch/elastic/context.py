"""What the job around the driver of an elastic job offers, and how its end is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from hvdlite.launch import output
from hvdlite.launch.collapse import Collapse
from hvdlite.launch.console import Console
from hvdlite.launch.elastic import events
from hvdlite.launch.elastic.members import Member, Stage
from hvdlite.launch.elastic.state_machine import StateMachine
from hvdlite.launch.observers import JobObserver, JobStatus
from hvdlite.launch.spawn.elastic_ranks import RankStarter
from hvdlite.launch.verdict import Verdict


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
class Context:
    """What the job around the driver offers."""

    console: Console
    log: Callable[[str], None]
    command: Sequence[str]
    start: RankStarter  # of members of this host
    near: Collection[str]  # names of this host
    several_hosts: bool  # other hosts are named, or may be later
    streams: Streams
    observer: JobObserver
    torch_run: str  # for --torch-env: a name that no other job has
    verdict: ElasticVerdict


NAMES = ("stdout", "stderr")


class Streams:
    """The output of the members. Prefixes have the ranks of the moment, files the members' numbers.

    `directory`: for --output-filename. `collapse`: prints a line once that several members
    print. A directory to which nothing can be written is an error until there is a generation;
    later members train without a copy of their output."""

    def __init__(self, console: Console, directory: str | None, collapse: bool) -> None:
        self._say = console.say
        self._sinks = {"stdout": console.stdout, "stderr": console.stderr}
        self._directory = directory
        self._mergers = {
            name: Collapse(name, [], self._sinks[name].emit) for name in NAMES if collapse
        }
        self._members: dict[int, Mapping[str, output.Stream]] = {}
        self._begun = False  # there was a generation

    def open(self, member: int, rank: int) -> Mapping[str, output.Stream]:
        """Of a process that is about to start. `rank`: the one that it is told. May raise OSError:
        a copy cannot be written."""
        found = {
            name: output.Stream(
                rank, name, self._sinks[name], self._copy(member, name), self._mergers.get(name),
                source=member,
            )
            for name in NAMES
        }  # fmt: skip
        self._members[member] = found
        for merger in self._mergers.values():
            merger.start(member, rank, awaited=not self._begun)
        return found

    def close(self, member: int) -> None:
        """The process is gone, and its output has been read."""
        self._members.pop(member, None)

    def renumber(self, ranks: Mapping[int, int]) -> None:
        """A generation: members and their ranks."""
        self._begun = True
        for member, rank in ranks.items():
            for stream in self._members.get(member, {}).values():
                stream.rank = rank
        for merger in self._mergers.values():
            merger.renumber(ranks)

    def _copy(self, member: int, name: str) -> int | None:
        if not self._directory:
            return None
        try:
            return output.open_copy(self._directory, member, 1, name)
        except OSError as error:
            if not self._begun:
                raise
            self._say(
                f"there is no copy of member {member}'s {name}: cannot write to {error.filename}: "
                f"{error.strerror}."
            )
            return None


def status_line(machine: StateMachine, now: float) -> JobStatus:
    """What --monitor shows beside the ranks: generation, newcomers, slots that stay empty. Pure."""
    members = machine.members
    ranks = sorted(members.of(Stage.SERVING), key=lambda member: member.rank)
    if machine.generation:
        parts = [f"generation {machine.generation}"]
    else:
        parts = ["before the first generation"]
    parts += _named("starting", members.of(Stage.COLD))
    parts += _named("ready", members.of(Stage.WARM))
    parts += _named("leaving", members.leaving())
    cooling = [
        place if seconds == float("inf") else f"{place} for {seconds:.0f} s"
        for place, seconds in members.cooling(now).items()
    ]
    parts += [f"empty after a failure: {', '.join(cooling)}"] if cooling else []
    hosts = {member.rank: f"{member.host}, member {member.number}" for member in ranks}
    names = tuple(dict.fromkeys(member.host for member in ranks))
    return JobStatus(hosts, "; ".join(parts), max(0, machine.generation - 1), names)


def _named(what: str, members: Sequence[Member]) -> list[str]:
    places = [f"member {each.number} on {each.host}" for each in members]
    return [f"{what}: {', '.join(places)}"] if places else []
