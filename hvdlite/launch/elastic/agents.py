"""The processes of an elastic job on all hosts: those of this one, and those behind agents.

An agent is called when the first member of its host is to be started. It is told to end when no
member is left there, and discovery names the host no longer or the host was asked to leave. An
agent that is asked and does not answer is given up.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from hvdlite.base.mailbox import Mailbox
from hvdlite.launch.hosts import Host
from hvdlite.launch.spawn import agent_protocol, ssh
from hvdlite.launch.spawn.elastic_ranks import ElasticRanks
from hvdlite.launch.spawn.silent_hosts import PAUSE, most_unanswered
from hvdlite.launch.watch import Watch


class Agents:
    """`near`: names of this machine. Others may turn out to be."""

    def __init__(
        self, loop: Watch, here: ElasticRanks, near: Iterable[str], connector: Connector
    ) -> None:
        self._loop = loop
        self._here = here
        self._near = set(near)
        self._connector = connector
        self._slots: dict[str, int] = {}  # of the hosts that discovery names
        self._agents: dict[str, ssh.RemoteRanks] = {}
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

    def look(self) -> list[int]:
        """Looks for members that are stopped: returns those here, and asks the agents."""
        for agent in self._agents.values():
            agent.inquire(agent_protocol.LOOK)
        return self._here.stopped()

    def heard(self, host: str) -> None:
        """Its agent has sent something."""
        if host in self._alive:
            self._alive[host].heard()

    def ask(self, unread: Collection[int], now: float) -> list[ssh.RemoteRanks]:
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

    def connected(self, result: ConnectResult) -> None:
        """The connector has reached a host, or has given it up."""
        waiting = self._waiting.pop(result.host, {})
        if result.problem:
            return
        if result.agent is None:
            self._near.add(result.host)
        else:
            self._agents[result.host] = result.agent
            silence = result.agent.order.silence_seconds
            self._alive[result.host] = KeepAlive(silence, time.monotonic())
            result.agent.start()
            self._loop.add(result.host, result.agent)
        for member, own in waiting.items():
            self.start(result.host, member, own)

    def gone(self, agent: ssh.RemoteRanks) -> bool:
        """Its last event has come. Returns whether it was told to end."""
        told = agent.host in self._ending
        self._ending.discard(agent.host)
        self._noticed.discard(agent.host)
        del self._agents[agent.host], self._alive[agent.host]
        self._connector.dismiss(agent)
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
        self._connector.begin(host, self._slots.get(host, 1))

    def close(self) -> None:
        self._connector.close()
        ssh.close(self._agents.values())
        self._here.close()


@dataclass(frozen=True)
class ConnectResult:
    """A host is reached, or is not. Neither an agent nor a problem: it is this machine."""

    host: str
    agent: ssh.RemoteRanks | None = None
    problem: str = ""


class Connector(Mailbox[ConnectResult | str]):
    """Reaches hosts in threads, so the launcher's loop never waits for a name or for a network.

    Any thread may `put()` a line for people; `take()` gives these lines and results.

    `reach` looks for a host with so many slots and returns its agent; None: it is this machine.
    OSError or ValueError: the host cannot take part. It ends when `over` is readable.
    """

    def __init__(self, reach: Callable[[str, int, Connector], ssh.RemoteRanks | None]) -> None:
        super().__init__()
        self._reach = reach
        self.over, self._end = os.pipe2(os.O_CLOEXEC)
        self._closing = False
        self._threads: list[threading.Thread] = []

    def begin(self, host: str, slots: int) -> None:
        self._start(lambda: self._connect(host, slots))

    def dismiss(self, agent: ssh.RemoteRanks) -> None:
        """Of no more use. It may take a while to end."""
        self._start(lambda: ssh.close([agent]))

    def close(self) -> None:
        """Ends all attempts that are under way."""
        self._closing = True
        os.write(self._end, b"e")
        for thread in self._threads:
            thread.join()
        results = [found for found in self.take() if isinstance(found, ConnectResult)]
        ssh.close([result.agent for result in results if result.agent])
        for descriptor in (self.over, self._end):
            os.close(descriptor)
        super().close()

    def _start(self, work: Callable[[], None]) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=work, name="hvd-connect", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _connect(self, host: str, slots: int) -> None:
        try:
            result = ConnectResult(host, self._reach(host, slots, self))
        except (OSError, ValueError) as error:
            result = ConnectResult(host, problem=str(error))
        self.put(result)


class KeepAlive:
    """When an agent counts as lost because it does not answer. Pure: times are handed in.

    sshd answers the questions of ssh, even where the agent is stopped. So the driver asks the agent
    itself. It counts questions, not seconds: a launcher that was suspended asks none meanwhile.
    `silence`: the seconds of an outage that the agent outlives; 0: it is never asked.
    """

    def __init__(self, silence: float, now: float) -> None:
        self._most = most_unanswered(silence)
        self._next = now
        self._open = 0

    @property
    def is_lost(self) -> bool:
        return self._open > self._most

    def heard(self) -> None:
        """It has sent something, or was not read until now."""
        self._open = 0

    def is_due(self, now: float) -> bool:
        """Whether it has to be asked now. The answer calls heard()."""
        if not self._most or now < self._next:
            return False
        self._next = now + PAUSE
        self._open += 1
        return True

    def left(self, now: float) -> float | None:
        """The seconds until the next question."""
        return max(0.0, self._next - now) if self._most else None
