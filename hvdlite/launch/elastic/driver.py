"""Connects the machine of an elastic job with processes, the store and the hosts' source.

It decides nothing: what happens becomes events of `membership`, and its actions are done here.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hvdlite.launch import job, output, plan
from hvdlite.launch.console import Console
from hvdlite.launch.elastic import events
from hvdlite.launch.elastic.crew import Policy
from hvdlite.launch.elastic.inbox import Inbox
from hvdlite.launch.elastic.membership import Membership
from hvdlite.launch.elastic.scout import Fixed, Scout
from hvdlite.launch.hosts import Host
from hvdlite.launch.spawn import local
from hvdlite.launch.spawn.events import AllGone, Ended, Event, StartFailed
from hvdlite.launch.verdict import Verdict
from hvdlite.launch.watch import Watch
from hvdlite.rendezvous import roll
from hvdlite.rendezvous.server import StoreServer
from hvdlite.rendezvous.watched import Watched

PREFIX = "elastic/"


@dataclass
class ElasticVerdict(Verdict):
    """The job's end, as the machine or a signal has decided it."""

    end: events.End | None = None

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
    environment: Mapping[str, str]  # of all members
    secret: int | None  # a descriptor that members inherit
    grace_seconds: float
    output_directory: str | None
    verdict: ElasticVerdict


@dataclass
class Process:
    """A member's process, and the guardian that watches it."""

    group: local.Ranks
    streams: Mapping[str, output.Stream]


class Driver(Watch):
    def __init__(
        self,
        policy: Policy,
        around: Surroundings,
        store: StoreServer,
        watched: Watched,
        source: Scout | Fixed,
    ) -> None:
        super().__init__({}, {}, around.verdict, around.log, self._chore)
        self._around = around
        self._verdict = around.verdict
        self._store = store
        self._watched = watched
        self._source = source
        self._processes: dict[int, Process] = {}
        self._inbox = Inbox(around.console.say)
        self._stopping = False
        self._waiting: list[events.Event] = []  # that came while actions were done
        self._busy = False
        self._machine = Membership(policy, time.monotonic(), random.random)
        self.call(watched.fileno(), self._read_store)
        if source.fileno() >= 0:
            self.call(source.fileno(), self._read_source)
        else:
            self._read_source()

    def goes_on(self) -> bool:
        over = self._verdict.end is not None or bool(self._verdict.interrupted)
        return bool(self.groups) or not over

    def happened(self, descriptor: int, host: str, event: Event) -> None:
        if isinstance(event, Ended):
            self.log(f"member {event.rank} ended with status {event.status}")
            words = self.stderr[event.rank].last_words.found()[0]
            line = words.decode("utf-8", "backslashreplace")
            self._handle([events.Ended(event.rank, event.status, line)])
        elif isinstance(event, StartFailed):
            reason = f"cannot start {self._around.command[0]!r}: {os.strerror(event.errno)}"
            self._handle([events.StartFailed(event.rank, reason)])
        elif isinstance(event, AllGone):
            super().happened(descriptor, host, event)
            self._close(descriptor)
        else:
            super().happened(descriptor, host, event)

    def signalled(self, caught: list[int]) -> None:
        while caught:
            number = caught.pop(0)
            if number in (signal.SIGUSR1, signal.SIGUSR2):
                for _, group in self.groups.values():
                    group.forward(number)
            elif self.asked:
                self.ask(politely=False)
            elif number == signal.SIGTERM and self._verdict.end is None:
                if self._stopping:  # a second one does not wait for the boundary
                    self._interrupt(number)
                self._stopping = True
                self._handle([events.Stop(128 + number)])
            else:
                self._interrupt(number)

    def judge(self) -> None:
        """The machine has its own answer to deaths: the actions that are done in `_handle`."""

    def _interrupt(self, number: int) -> None:
        self._verdict.interrupted = self._verdict.interrupted or number
        self.ask(politely=True)

    def _chore(self) -> float | None:
        """What time does; returns the seconds until it has to be done again."""
        now = time.monotonic()
        due = self._machine.due()
        if due is not None and due <= now:
            self._handle([])
            due = self._machine.due()
        return None if due is None else max(0.0, due - time.monotonic())

    # What is heard.

    def _read_source(self) -> None:
        for answer in self._source.take():
            far = self._far(answer.hosts or ())
            if answer.fatal or far:
                sentence = answer.trouble if answer.fatal else far
                self._do(events.End(1, sentence))
            elif answer.trouble:
                self._around.console.say(answer.trouble)
            if answer.hosts is not None and not far:
                self._handle([events.HostsFound(answer.hosts)])

    @staticmethod
    def _far(hosts: Sequence[Host]) -> str:
        """Why these hosts cannot be used; empty if they can."""
        far = job.elsewhere(host.name for host in hosts)
        if not far:
            return ""
        return (
            f"{far[0]} is another host: an elastic job runs on this host only in this version of "
            "hvdlite. Name this host, or leave out --min-np and --host-discovery-script."
        )

    def _read_store(self) -> None:
        self._handle(self._inbox.read(self._watched.take(), time.monotonic()))

    def _handle(self, batch: Sequence[events.Event]) -> None:
        """What an action itself leads to is an event after those of this batch."""
        self._waiting += batch
        if self._busy or self._verdict.interrupted:
            return
        self._busy = True
        todo = self._machine.handle(self._taken(), time.monotonic())
        while todo:
            for action in todo:
                self._do(action)
            todo = self._machine.handle(self._taken(), time.monotonic()) if self._waiting else []
        self._busy = False

    def _taken(self) -> list[events.Event]:
        taken, self._waiting = self._waiting, []
        return taken

    # What is done.

    def _do(self, action: events.Action) -> None:
        store, put = self._store, self._store.put
        if isinstance(action, events.Start):
            self._start(action)
        elif isinstance(action, events.Kill):
            self._kill(action)
        elif isinstance(action, events.Tell):
            put(f"{PREFIX}news/{action.news.number}", roll.encode_news(action.news))
        elif isinstance(action, events.WarmAlone):
            put(f"{PREFIX}place/{action.member}", b"0")
        elif isinstance(action, events.FailMeeting):
            sentence = f"member {action.member} ended while generation {action.generation} formed."
            store.call_off(f"g{action.generation}/init", sentence)
        elif isinstance(action, events.WriteRoll):
            self._write(action.roll)
        elif isinstance(action, events.Forget):
            for kind in ("report", "roll", "in"):
                store.delete(f"{PREFIX}{kind}/{action.generation}")
            store.delete(f"g{action.generation}")
        elif isinstance(action, events.Say):
            self._around.console.say(action.text)
        elif self._verdict.end is None:
            self._verdict.end = action
            self.ask(politely=True)

    def _write(self, written: roll.Roll) -> None:
        ranks = {entry.member: rank for rank, entry in enumerate(written.members)}
        for member, rank in ranks.items():
            if member in self._processes:
                for stream in self._processes[member].streams.values():
                    stream.rank = rank
        names = ", ".join(f"{member} is rank {rank}" for member, rank in ranks.items())
        self.log(f"generation {written.generation} has {len(ranks)} ranks: member {names}")
        data = roll.encode_roll(written.with_nonce(secrets.token_hex(roll.NONCE_DIGITS // 2)))
        self._store.put(f"{PREFIX}roll/{written.generation}", data)
        for entry in written.members:
            if entry.newcomer:
                number = str(written.generation).encode()
                self._store.put(f"{PREFIX}place/{entry.member}", number)

    def _start(self, action: events.Start) -> None:
        around, member, place = self._around, action.member, action.expected
        slot = plan.Slot(
            action.host,
            place.rank,
            place.size,
            place.local_rank,
            place.local_size,
            place.cross_rank,
            place.cross_size,
        )
        own = {
            **plan.rank_environment(slot, several_hosts=place.local_size < place.size),
            "HVDLITE_MEMBER": str(member),
            "HVDLITE_SLOT": str(action.slot),
            "HVDLITE_MEMBER_TOKEN": self._inbox.new_token(member).hex(),
            "HVDLITE_MEMBER_MEETS": str(int(action.meets)),
        }
        try:
            streams = self._open_streams(member, place.rank)
            group = local.start(
                around.command,
                around.environment,
                {member: own},
                around.secret,
                around.grace_seconds,
            )
        except OSError as error:
            reason = f"cannot start a process: {error.strerror or error}"
            return self._handle([events.StartFailed(member, reason)])
        self.log(f"member {member} starts in slot {action.slot} of {action.host}")
        self._processes[member] = Process(group, streams)
        self._verdict.hosts = {**self._verdict.hosts, member: action.host}
        for name, stream in streams.items():
            self.streams[member, name] = stream
        self.stderr[member] = streams["stderr"]
        self.add(action.host, group)

    def _open_streams(self, member: int, rank: int) -> dict[str, output.Stream]:
        console, directory = self._around.console, self._around.output_directory
        found = {}
        for name, sink in (("stdout", console.stdout), ("stderr", console.stderr)):
            copy = output.open_copy(directory, member, 1, name) if directory else None
            found[name] = output.Stream(rank, name, sink, copy)
        return found

    def _kill(self, action: events.Kill) -> None:
        process = self._processes.get(action.member)
        if process is None or process.group.fileno() not in self.groups:
            return
        self.log(f"member {action.member} is ended: {action.why}")
        if action.politely:
            process.group.terminate()
        else:
            process.group.kill()
        seconds = process.group.ending_seconds(action.politely)
        self.patience[process.group.fileno()].asked(seconds, time.monotonic())

    def _close(self, descriptor: int) -> None:
        """A member's process and all that it has started are gone."""
        for member, process in list(self._processes.items()):
            if process.group.fileno() != descriptor:
                continue
            self.finish(member)
            process.group.close()
            del self._processes[member]

    def close(self) -> None:
        super().close()
        for process in self._processes.values():
            with contextlib.suppress(OSError):
                process.group.close()
        self._source.close()
