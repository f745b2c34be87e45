"""The driver's ends of the connections with tasks, each of which has an agent with one slot.

A SparkRank is the rank beside a task, for the driver's loop. A TaskConnection reads what the task's
agent sends. TaskConnections is where the driver finds its hosts, and where it starts members.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping

from hvdlite.base.mailbox import Mailbox
from hvdlite.launch.elastic.discovery import Answer
from hvdlite.launch.elastic.host_discovery import HostDiscovery
from hvdlite.launch.spawn import agent_protocol, events
from hvdlite.launch.spawn.agent_protocol import Decoder, EndOne, Frame, StartOne
from hvdlite.launch.spawn.elastic_ranks import ClusterRank
from hvdlite.launch.spawn.events import AllGone, Event, RankEnded, RankGone
from hvdlite.launch.spawn.guardian import ASKING, FORWARDED, KILL_SECONDS
from hvdlite.launch.spawn.silent_hosts import socket_options
from hvdlite.spark.elastic.agent_task import TaskHello
from hvdlite.spark.elastic.hosts import TaskHosts

# For a slow executor, in addition to what the agent there has to do.
_MARGIN_SECONDS = 5.0
_READ_BYTES = 1 << 18
_MOST_HELLO = 4096
_JOIN_SECONDS = 10.0
_STREAMS = {agent_protocol.STDOUT: "stdout", agent_protocol.STDERR: "stderr"}


class SparkRank(ClusterRank):
    """The ElasticRank of one member. Its thread is the connection's."""

    def __init__(self, number: int, connection: TaskConnection, grace_seconds: float) -> None:
        super().__init__(number)
        self._connection, self._grace = connection, grace_seconds
        self._told = False  # the loop has heard its last event
        self._over = threading.Event()  # the connection's thread has told it

    def events(self) -> list[Event]:
        found = super().events()
        self._told = self._told or any(isinstance(event, AllGone) for event in found)
        return found

    def terminate(self) -> None:
        self._connection.send(EndOne(self.number, politely=True).encode())

    def kill(self) -> None:
        self._connection.send(EndOne(self.number, politely=False).encode())

    def forward(self, number: int) -> None:
        self._connection.send((FORWARDED | ASKING)[signal.Signals(number)])

    def ending_seconds(self, politely: bool) -> float:
        return (self._grace if politely else 0.0) + KILL_SECONDS + _MARGIN_SECONDS

    def abandon(self) -> list[Event]:
        self._connection.hang_up()
        return super().abandon()

    def close(self) -> None:
        self.close_pipes()
        if not self._told:
            self._connection.close()
        self._over.wait(_MARGIN_SECONDS)
        self.news.close()

    # What the connection's thread calls.

    def printed(self, name: str, data: bytes) -> None:
        """Empty: the stream has ended. Waits while the driver does not read."""
        end = self.ends.get(name)
        if end is None:
            return
        if not data:
            os.close(self.ends.pop(name))
        view = memoryview(data)
        with contextlib.suppress(OSError):  # the driver reads it no more
            while view:
                view = view[os.write(end, view) :]

    def gone(self, *last: Event) -> None:
        """These are its last events."""
        while self.ends:
            os.close(self.ends.popitem()[1])
        for event in last:
            self.news.put(event)
        self._over.set()


class TaskConnection:
    """A thread reads it until the task has ended."""

    def __init__(self, sock: socket.socket, silence_seconds: float) -> None:
        self.hello: TaskHello | None = None
        self.is_ready = False  # its agent waits for a member
        self.is_over = False
        self.problem = ""  # why its agent has ended
        self._sock = sock
        self._member: SparkRank | None = None
        self._lock = threading.Lock()
        sock.setblocking(True)
        for level, option, value in socket_options(silence_seconds):
            sock.setsockopt(level, option, value)
        self._thread = threading.Thread(target=self._run, name="hvd-spark-task", daemon=True)
        self._thread.start()

    @property
    def is_free(self) -> bool:
        return self.is_ready and not self.is_over and self._member is None

    def start(self, number: int, own: Mapping[str, str], grace_seconds: float) -> SparkRank:
        """Starts a member. Raises OSError if the task has ended."""
        with self._lock:
            if self.is_over:
                raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
            self._member = member = SparkRank(number, self, grace_seconds)
        self.send(StartOne(number, own).encode())
        return member

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # it has ended; its thread tells
            self._sock.sendall(data)

    def hang_up(self) -> None:
        """Ends the task, with the rank beside it; returns at once."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the task, and waits for the thread."""
        self.hang_up()
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        # TypeError and ValueError: the other side is another release of hvdlite.
        with contextlib.suppress(OSError, TypeError, ValueError):
            self._listen()
        self._sock.close()
        with self._lock:
            self.is_over, member, self._member = True, self._member, None
        if member is not None:
            member.gone(RankEnded(member.number, signal=signal.SIGKILL), AllGone())

    def _listen(self) -> None:
        data = b""
        while b"\n" not in data:
            more = self._sock.recv(_READ_BYTES)
            data += more
            if not more or len(data) > _MOST_HELLO:
                return
        line, _, data = data.partition(b"\n")
        self.hello = TaskHello(**json.loads(line))
        decoder = Decoder()
        while True:
            for frame in decoder.feed(data):
                self._understood(frame)
            data = self._sock.recv(_READ_BYTES)
            if not data:
                return

    def _understood(self, frame: Frame) -> None:
        if frame.kind == agent_protocol.READY:
            self.send(agent_protocol.START)
            self.is_ready = True
        elif frame.kind == agent_protocol.REFUSED:
            self.problem = frame.payload.decode(errors="backslashreplace")
        elif frame.kind == agent_protocol.EVENT:
            self._happened(events.parse(frame.payload.decode()))
        elif self._member is not None:
            self._member.printed(_STREAMS[frame.kind], frame.payload)

    def _happened(self, event: Event) -> None:
        member = self._member
        if member is None:
            return
        if isinstance(event, RankGone):
            with self._lock:
                self._member = None
            member.gone(AllGone(event.resisting))
        else:
            member.news.put(event)


class TaskConnections(HostDiscovery):
    """Looks once a second. `guests`: connections of tasks, as StoreServer.guests() returns them."""

    def __init__(
        self,
        guests: Mailbox[socket.socket],
        hosts: TaskHosts,
        grace_seconds: float,
        silence_seconds: float,
    ) -> None:
        self._guests, self._hosts = guests, hosts
        self._grace, self._silence = grace_seconds, silence_seconds
        self._all: list[TaskConnection] = []
        self._failures: list[str] = []
        self._lock = threading.Lock()
        super().__init__(self._look)

    def failed(self, why: str) -> None:
        """A task has failed. Any thread."""
        with self._lock:
            self._failures.append(f"a task of Spark has failed: {why}")

    def start(self, number: int, own: Mapping[str, str]) -> SparkRank:
        """Starts a member on its host. Raises OSError if no slot is free there any more."""
        host = own["HOROVOD_HOSTNAME"]
        with self._lock:
            for task in self._all:
                if task.is_free and task.hello and self._hosts.name(task.hello) == host:
                    return task.start(number, own, self._grace)
        raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))

    def hang_up(self) -> None:
        """Ends all tasks."""
        for task in self._all:
            task.hang_up()
        for task in self._all:
            task.close()

    def _look(self) -> Answer:
        with self._lock:
            self._all += [TaskConnection(sock, self._silence) for sock in self._guests.take()]
            for task in self._all:
                if task.is_over and task.hello:
                    self._failures.append(_loss(self._hosts.name(task.hello), task.problem))
            self._all = [task for task in self._all if not task.is_over]
            there = [task.hello for task in self._all if task.is_ready and task.hello]
            failures, self._failures = self._failures, []
            return self._hosts.count(there, failures, time.monotonic())


def _loss(host: str, problem: str) -> str:
    return f"a task of Spark on {host} was lost{': ' if problem else ''}{problem}."
