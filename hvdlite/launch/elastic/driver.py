"""The driver of an elastic job: the loop between its processes, the store and the hosts' source.

It decides nothing. It makes events of what happens, hands them to `state_machine`, and does the
actions that come back.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import time
from collections.abc import Iterable, Sequence

from hvdlite.launch import plan
from hvdlite.launch.elastic import events
from hvdlite.launch.elastic.agents import Agents, Connector, ConnectResult
from hvdlite.launch.elastic.context import Context, status_line
from hvdlite.launch.elastic.host_discovery import HostSource
from hvdlite.launch.elastic.options import Policy
from hvdlite.launch.elastic.state_machine import StateMachine
from hvdlite.launch.elastic.store_events import StoreEvents
from hvdlite.launch.hosts import Host
from hvdlite.launch.last_words import shown
from hvdlite.launch.spawn import ssh
from hvdlite.launch.spawn.elastic_ranks import ElasticRanks
from hvdlite.launch.spawn.events import (
    Alive,
    AllGone,
    Event,
    HostLeaving,
    HostLost,
    RankEnded,
    RankGone,
    RankStartFailed,
    RankStopped,
    Unanswered,
)
from hvdlite.launch.watch import PASSED_ON, Watch
from hvdlite.rendezvous import documents
from hvdlite.rendezvous.server import StoreServer, Watched

PREFIX = "elastic/"


class Driver(Watch):
    def __init__(
        self,
        policy: Policy,
        context: Context,
        store: StoreServer,
        watched: Watched,
        source: HostSource,
        connector: Connector,
    ) -> None:
        super().__init__({}, {}, context.verdict, context.log, self._chore)
        self._context = context
        self._verdict = context.verdict
        self._store = store
        self._watched = watched
        self._source = source
        self._connector = connector
        self._here = ElasticRanks(context.start)
        self._agents = Agents(self, self._here, context.near, connector)
        self._least = policy.least
        self._hosts: Sequence[Host] = ()  # the latest answer of discovery
        self._unreached: dict[str, str] = {}  # hosts that cannot be reached, and why
        self._lost: dict[str, str] = {}  # hosts whose agents are lost, and why
        # By member, the host of its process, or where there is to be one when the host is reached.
        self._processes: dict[int, str] = {}
        self._store_events = StoreEvents(context.console.say, lambda: self._verdict.hosts)
        self._stopping = False
        self._waiting: list[events.Event] = []  # that came while actions were done
        self._busy = False
        self._machine = StateMachine(policy, time.monotonic(), random.random)
        context.observer.ask(lambda: status_line(self._machine, time.monotonic()))
        self.call_all(context.observer.calls())
        self.call(watched.fileno(), self._read_store)
        self.call(connector.fileno(), self._read_connector)
        self.call(source.fileno(), self._read_source)

    def goes_on(self) -> bool:
        over = self._verdict.end is not None or bool(self._verdict.interrupted)
        return bool(self.groups) or not over

    def happened(self, descriptor: int, host: str, event: Event) -> None:
        self._agents.heard(host)
        if isinstance(event, RankEnded):
            self._read_store()  # what it said before its end: that its function returned
            self.log(f"member {event.rank} ended with status {event.status}")
            words, is_error = self.stderr[event.rank].last_words.found()
            ended = events.Ended(event.rank, event.status, shown(words), is_error, event.signal)
            self._handle([ended])
        elif isinstance(event, RankStartFailed):
            reason = f"cannot start {self._context.command[0]!r}: {os.strerror(event.errno)}"
            self._handle([events.StartFailed(event.rank, reason)])
        elif isinstance(event, RankGone):
            self.resisting += event.resisting
            self._close(event.rank)
        elif isinstance(event, RankStopped):
            self._handle([events.Stopped(event.rank)])
        elif isinstance(event, HostLeaving):
            self._handle([events.HostLeaves(host, "its agent was sent SIGTERM")])
        elif isinstance(event, HostLost):
            self._lost[host] = event.reason
        elif isinstance(event, AllGone):
            group = self.groups[descriptor][1]
            super().happened(descriptor, host, event)
            if isinstance(group, ssh.RemoteRanks):
                self._agent_gone(group)
        elif not isinstance(event, Unanswered | Alive):
            super().happened(descriptor, host, event)

    def _abandon(self, agent: ssh.RemoteRanks) -> None:
        descriptor = agent.fileno()
        for event in agent.abandon():
            self.happened(descriptor, agent.host, event)

    def _agent_gone(self, agent: ssh.RemoteRanks) -> None:
        told = self._agents.gone(agent)
        reason = self._lost.pop(agent.host, "its agent has not answered")
        if not (told or self.asked):
            self._lose(agent.host, f"host {agent.host} was lost: {reason}.")

    def _lose(self, host: str, reason: str) -> None:
        for member, its_host in list(self._processes.items()):
            if its_host == host:
                self._close(member)
        self._handle([events.HostLost(host, reason)])

    def signalled(self, caught: list[int]) -> None:
        while caught:
            number = caught.pop(0)
            if number in PASSED_ON:
                for _, group in self.groups.values():
                    group.forward(number)
            elif self.asked:
                self.ask(politely=False)
            elif number == signal.SIGTERM and self._verdict.end is None:
                if self._stopping:  # a second one does not wait for the boundary
                    self._interrupt(number)
                self._stopping, self._verdict.stopped = True, number
                self._handle([events.Stop(128 + number)])
            else:
                self._interrupt(number)

    def ask(self, politely: bool) -> None:
        self._say_over(self._processes)
        super().ask(politely)

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
        self._here.give_up(now)
        if not self.asked:
            for agent in self._agents.ask(self.paused, now):
                self.log(f"host {agent.host} does not answer")
                self._abandon(agent)
        reasons = (
            None if due is None else max(0.0, due - now),
            self._here.left(now),
            None if self.asked else self._agents.left(now),
            self._context.observer.tick(),
        )
        return min((seconds for seconds in reasons if seconds is not None), default=None)

    # What is heard.

    def _read_source(self) -> None:
        for answer in self._source.take():
            if answer.fatal:
                self._do(events.End(1, answer.trouble))
            elif answer.trouble:
                self._context.console.say(answer.trouble)
            if answer.hosts is not None:
                self._hosts = answer.hosts
                self._agents.named(answer.hosts)
                self._handle([events.HostsFound(answer.hosts)])

    def _read_connector(self) -> None:
        for found in self._connector.take():
            if isinstance(found, str):
                self._context.console.say(found)
            elif not self.asked:
                self._agents.connected(found)
                self._reached(found)
            elif found.agent is not None:
                self._connector.dismiss(found.agent)
        self._release()

    def _reached(self, found: ConnectResult) -> None:
        """A host, or it cannot be reached. The reason is told once until it can."""
        if not found.problem:
            self._unreached.pop(found.host, None)
            return None
        told = self._unreached.get(found.host)
        self._unreached[found.host] = found.problem
        slots = sum(host.slots for host in self._hosts if host.name not in self._unreached)
        if self._source.is_final and not self._machine.generation and slots < self._least:
            return self._do(events.End(1, "\n".join(self._unreached.values())))
        return self._lose(found.host, f"{found.problem}." if told != found.problem else "")

    def _read_store(self) -> None:
        self._handle(self._store_events.read(self._watched.take(), time.monotonic()))

    def _handle(self, batch: Sequence[events.Event]) -> None:
        """What an action itself leads to is an event after those of this batch."""
        self._waiting += batch
        for event in batch:
            if isinstance(event, events.HostLeaves):
                self._agents.noticed(event.host)
        if self._busy or self._verdict.interrupted or self._verdict.end is not None:
            return
        self._busy = True
        goes_on = True  # also without events: time has passed
        while goes_on:
            taken, self._waiting = self._waiting, []
            for action in self._machine.handle(taken, time.monotonic()):
                self._do(action)
            goes_on = bool(self._waiting)
        self._busy = False
        self._release()

    def _release(self) -> None:
        self._agents.release(set(self._processes.values()))

    # What is done.

    def _do(self, action: events.Action) -> None:
        store = self._store
        if isinstance(action, events.Start):
            self._start(action)
        elif isinstance(action, events.Kill):
            self._kill(action)
        elif isinstance(action, events.Look):
            self._waiting += [events.Stopped(member) for member in self._agents.look()]
        elif isinstance(action, events.Tell):
            notice = action.notice
            store.put(f"{PREFIX}notice/{notice.number}", documents.encode_notice(notice))
        elif isinstance(action, events.WarmAlone):
            store.put(f"{PREFIX}place/{action.member}", b"0")
        elif isinstance(action, events.FailRendezvous):
            sentence = f"member {action.member} ended while generation {action.generation} formed."
            store.call_off(f"g{action.generation}/init", sentence)
        elif isinstance(action, events.WriteAssignment):
            self._write(action.assignment)
        elif isinstance(action, events.Forget):
            for kind in ("report", "assignment", "in"):
                store.delete(f"{PREFIX}{kind}/{action.generation}")
            store.delete(f"g{action.generation}")
        elif isinstance(action, events.Say):
            self._context.console.say(action.text)
            self._context.observer.told(action.text)
        elif self._verdict.end is None:
            self._verdict.end = action
            self.ask(politely=True)

    def _write(self, written: documents.Assignment) -> None:
        ranks = {entry.member: rank for rank, entry in enumerate(written.members)}
        self._verdict.ranks = written.member_numbers()
        self._context.streams.renumber(ranks)
        self._store.delete("monitor")  # reports of the ranks that there were
        names = ", ".join(f"{member} is rank {rank}" for member, rank in ranks.items())
        self.log(f"generation {written.generation} has {len(ranks)} ranks: member {names}")
        with_nonce = written.with_nonce(secrets.token_hex(documents.NONCE_DIGITS // 2))
        data, number = documents.encode_assignment(with_nonce), str(written.generation).encode()
        self._store.put(f"{PREFIX}assignment/{written.generation}", data)
        self._store.put(f"{PREFIX}{documents.GENERATION}", number)
        for entry in written.members:
            if entry.newcomer:
                self._store.put(f"{PREFIX}place/{entry.member}", number)

    def _start(self, action: events.Start) -> None:
        context, member, numbers = self._context, action.member, action.expected
        slot = plan.Slot(action.host, **vars(numbers))
        own = {
            **plan.rank_environment(slot, context.several_hosts),
            "HVDLITE_MEMBER": str(member),
            "HVDLITE_SLOT": str(action.slot),
            "HVDLITE_MEMBER_TOKEN": self._store_events.new_token(member).hex(),
            "HVDLITE_MEMBER_MEETS": str(int(action.meets)),
        }
        if context.torch_run:
            own |= plan.torch_environment([slot], context.torch_run)[numbers.rank]
        try:
            streams = context.streams.open(member, numbers.rank)
        except OSError as error:
            reason = f"cannot write to {error.filename}: {error.strerror}"
            return self._handle([events.StartFailed(member, reason)])
        self.log(f"member {member} starts in slot {action.slot} of {action.host}")
        self._processes[member] = action.host
        self._verdict.hosts = {**self._verdict.hosts, member: action.host}
        for name, stream in streams.items():
            self.streams[member, name] = stream
        self.stderr[member] = streams["stderr"]
        self._agents.start(action.host, member, own)

    def _kill(self, action: events.Kill) -> None:
        host = self._processes.get(action.member)
        if host is None:
            return
        self.log(f"member {action.member} is ended: {action.why}")
        if action.politely:
            self._say_over([action.member])
        if not self._agents.end(host, action.member, action.politely):
            self._close(action.member)
            killed = signal.SIGKILL
            self._handle([events.Ended(action.member, 128 + killed, signal=killed)])

    def _say_over(self, members: Iterable[int]) -> None:
        """The SIGTERM that these processes will get is no notice, but their end."""
        for member in members:
            self._store.put(f"{PREFIX}{documents.OVER}/{member}", b"")

    def _close(self, member: int) -> None:
        """A member's process and all that it has started are gone."""
        self.finish(member)
        for name in ("stdout", "stderr"):
            self.end_stream((member, name))
        self._context.streams.close(member)
        self._here.close_one(member)
        self._processes.pop(member, None)
        self.stderr.pop(member, None)
        for kind in (documents.LEAVE, documents.LEAVE_HOST, documents.OVER):
            self._store.delete(f"{PREFIX}{kind}/{member}")

    def close(self) -> None:
        super().close()
        self._agents.close()
        self._source.close()
