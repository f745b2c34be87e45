"""The processes of an elastic job on all hosts: those of this one, and those behind agents.

An agent is called when the first member of its host is to be started. It is told to end when no
member is left there, and discovery names the host no longer or the host was asked to leave. An
agent that is asked and does not answer is given up.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from hvdlite.launch.elastic.contacts import Contacts, Outcome
from hvdlite.launch.elastic.keepalive import KeepAlive
from hvdlite.launch.hosts import Host
from hvdlite.launch.spawn import agent_protocol, ssh
from hvdlite.launch.spawn.events import Group, Pipes
from hvdlite.launch.spawn.parties import Parties


class Loop(Protocol):
    """What is asked of the launcher's loop."""

    def add(self, host: str, group: Group) -> None: ...
    def listen(self, rank: int, pipes: Pipes) -> None: ...


class Agents:
    """`near`: names of this machine. Others may turn out to be."""

    def __init__(self, loop: Loop, here: Parties, near: Iterable[str], contacts: Contacts) -> None:
        self._loop = loop
        self._here = here
        self._near = set(near)
        self._contacts = contacts
        self._slots: dict[str, int] = {}  # of the hosts that discovery names
        self._agents: dict[str, ssh.Remote] = {}
        self._alive: dict[str, KeepAlive] = {}  # by the agents' hosts
        self._ending: set[str] = set()  # agents that were told to end
        self._noticed: set[str] = set()  # hosts that were asked to leave
        # By host, members that are to be started when its agent is there.
        self._waiting: dict[str, dict[int, Mapping[str, str]]] = {}
        loop.add("localhost", here)

    def start(self, host: str, member: int, own: Mapping[str, str]) -> None:
        """Starts a member, as soon as its host is reached."""
        if host in self._near:
            pipes = self._here.start_one(member, own)
            if pipes is not None:
                self._loop.listen(member, pipes)
        elif host in self._agents and host not in self._ending:
            self._agents[host].start_one(member, own)
        else:
            if host not in self._waiting and host not in self._agents:
                self._call(host)
            self._waiting.setdefault(host, {})[member] = own

    def end(self, host: str, member: int, politely: bool) -> bool:
        """Ends a member. False: it was not started yet, and will not be."""
        if self._waiting.get(host, {}).pop(member, None) is not None:
            return False
        if host in self._near:
            self._here.end_one(member, politely)
        elif host in self._agents:
            self._agents[host].end_one(member, politely)
        return True

    def close_one(self, member: int) -> None:
        """A member of this host is gone, and its streams are read."""
        self._here.close_one(member)

    def look(self) -> list[int]:
        """Looks for members that are stopped: returns those here, and asks the agents."""
        for agent in self._agents.values():
            agent.inquire(agent_protocol.LOOK)
        return self._here.stopped()

    def heard(self, host: str) -> None:
        """Its agent has sent something."""
        if host in self._alive:
            self._alive[host].heard()

    def ask(self, unread: Collection[int], now: float) -> list[ssh.Remote]:
        """Asks agents whether they work. Returns those that have not answered for too long.

        `unread`: the descriptors of groups that are not read at present.
        """
        for host, alive in self._alive.items():
            agent, is_due = self._agents[host], alive.is_due(now)
            if agent.fileno() in unread:
                alive.heard()
            elif is_due:
                agent.inquire(agent_protocol.ASK)
        return [self._agents[host] for host, alive in self._alive.items() if alive.is_lost]

    def left(self, now: float) -> float | None:
        """The seconds until an agent has to be asked."""
        times = [alive.left(now) for alive in self._alive.values()]
        return min((seconds for seconds in times if seconds is not None), default=None)

    def settled(self, outcome: Outcome) -> None:
        """A contact has come to its end."""
        waiting = self._waiting.pop(outcome.host, {})
        if outcome.problem:
            return
        if outcome.agent is None:
            self._near.add(outcome.host)
        else:
            self._agents[outcome.host] = outcome.agent
            silence = outcome.agent.order.silence_seconds
            self._alive[outcome.host] = KeepAlive(silence, time.monotonic())
            outcome.agent.start()
            self._loop.add(outcome.host, outcome.agent)
        for member, own in waiting.items():
            self.start(outcome.host, member, own)

    def gone(self, agent: ssh.Remote) -> bool:
        """Its last event has come. Returns whether it was told to end."""
        told = agent.host in self._ending
        self._ending.discard(agent.host)
        self._noticed.discard(agent.host)
        del self._agents[agent.host], self._alive[agent.host]
        self._contacts.dismiss(agent)
        if self._waiting.get(agent.host):
            self._call(agent.host)
        else:
            self._waiting.pop(agent.host, None)
        return told

    def named(self, hosts: Iterable[Host]) -> None:
        """The latest answer of discovery."""
        self._slots = {host.name: host.slots for host in hosts}

    def noticed(self, host: str) -> None:
        """The host was asked to leave."""
        if host in self._agents:
            self._noticed.add(host)

    def release(self, busy: Collection[str]) -> None:
        """Tells agents to end that are of no more use. `busy`: the members' hosts."""
        for host, agent in self._agents.items():
            needed = host in busy or (host in self._slots and host not in self._noticed)
            if host not in self._ending and not needed:
                self._ending.add(host)
                agent.terminate()

    def _call(self, host: str) -> None:
        self._contacts.begin(host, self._slots.get(host, 1))

    def close(self) -> None:
        self._contacts.close()
        ssh.close(self._agents.values())
        self._here.close()
