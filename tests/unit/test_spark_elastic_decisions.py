"""What an elastic job on Spark decides, and the connection with a task, without Spark."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading

import pytest

pytest.importorskip("pyspark", reason='pip install ".[spark]": pyspark is not installed')

from hvdlite.launch.hosts import Host  # noqa: E402
from hvdlite.launch.spawn import agent_protocol, events  # noqa: E402
from hvdlite.launch.spawn.agent_protocol import Commands, EndOne, StartOne  # noqa: E402
from hvdlite.launch.spawn.events import AllGone, RankEnded  # noqa: E402
from hvdlite.spark.elastic import agent_task  # noqa: E402
from hvdlite.spark.elastic.agent_task import TaskHello  # noqa: E402
from hvdlite.spark.elastic.connection import SparkRank, TaskConnection  # noqa: E402
from hvdlite.spark.elastic.hosts import TaskHosts  # noqa: E402
from hvdlite.spark.elastic.run import policy_of  # noqa: E402

A, B, OTHER_A = TaskHello("1", "a"), TaskHello("2", "b"), TaskHello("3", "a")


@pytest.mark.parametrize(
    ("tasks", "hosts"),
    [
        ([A], (Host("a", 1),)),
        ([A, B, A], (Host("a", 2), Host("b", 1))),
        ([A, OTHER_A, A], (Host("a", 2), Host("a-2", 1))),  # two containers with one name
    ],
)
def test_the_tasks_that_have_come_are_the_hosts(
    tasks: list[TaskHello], hosts: tuple[Host, ...]
) -> None:
    found = TaskHosts(1, 4, 0.0, 60.0)
    assert found.count(tasks, [], 1.0).hosts == hosts
    assert found.count(tasks, [], 2.0).hosts is None, "nothing has changed"
    assert found.count([], [], 3.0).hosts == ()
    assert found.count(tasks[::-1], [], 4.0).hosts == hosts, "names stay"


def test_a_failure_is_told_once_in_a_row_and_ends_nothing() -> None:
    hosts = TaskHosts(1, 1, 0.0, 60.0)
    assert hosts.count([A], [], 1.0).trouble == ""
    assert hosts.count([A], ["x"], 2.0).trouble == "x"
    answer = hosts.count([], ["x", "y", "y"], 3.0)
    assert answer.trouble == "y" and not answer.fatal
    assert hosts.count([], ["x"], 999.0).trouble == "x"


@pytest.mark.parametrize(
    ("tasks", "failures", "now", "said"),
    [
        ([], ["a", "b"], 1.0, "no task of Spark can take part: b"),  # each has failed once
        ([], ["a"], 1.0, ""),
        ([A], ["a", "b"], 1.0, ""),
        ([A], [], 61.0, "only 1 of 2 tasks have started within 60 s"),
        ([A, A], [], 61.0, ""),
    ],
)
def test_what_ends_a_job_that_has_not_begun(
    tasks: list[TaskHello], failures: list[str], now: float, said: str
) -> None:
    answer = TaskHosts(2, 2, 0.0, 60.0).count(tasks, failures, now)
    assert answer.fatal == bool(said) and answer.trouble.startswith(said)


def test_the_numbers_of_processes() -> None:
    policy = policy_of(4, 2, None, 33, 5, 10.0)
    assert (policy.processes, policy.least, policy.most) == (4, 2, 4)
    assert (policy.elastic_timeout, policy.reset_limit) == (33.0, 5)
    assert policy_of(4, None, 8, None, None, 10.0).least == 4
    for least, most in ((5, None), (None, 3), (0, -1)):
        with pytest.raises(ValueError, match="min_num_proc is at most num_proc"):
            policy_of(4, least, most, None, None, 10.0)


class Task:
    """The other end of a connection."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair()
        self._commands = Commands()
        self.sock = mine
        mine.settimeout(30)
        self.connection = TaskConnection(theirs, 0.0)

    def says(self, kind: bytes, payload: bytes, rank: int = 0) -> None:
        with contextlib.suppress(BrokenPipeError):  # the driver has closed it
            self.sock.sendall(agent_protocol.encode(kind, payload, rank))

    def happens(self, event: events.Event) -> None:
        self.says(agent_protocol.EVENT, events.line(event).encode())

    def gets_ready(self) -> None:
        self.sock.sendall(A.encode() + agent_protocol.MARK)
        self.says(agent_protocol.READY, b"a:1")
        assert self.hears() == agent_protocol.START

    def hears(self) -> object:
        while True:
            found = self._commands.feed(self.sock.recv(1))
            if found:
                return found[0]


def _waits(member: SparkRank, seconds: float = 30) -> list[events.Event]:
    assert select.select([member], [], [], seconds)[0]
    return member.events()


def _all(member: SparkRank) -> list[events.Event]:
    found: list[events.Event] = []
    while not found or not isinstance(found[-1], AllGone):
        found += _waits(member)
    return found


def test_a_task_has_one_member_after_another() -> None:
    task = Task()
    task.gets_ready()
    for number in (3, 7):
        member = task.connection.start(number, {"A": "b"}, 1.0)
        assert task.hears() == StartOne(number, {"A": "b"}) and not task.connection.is_free
        task.says(agent_protocol.STDOUT, b"hello\n", number)
        task.says(agent_protocol.STDERR, b"last words\n", number)
        member.terminate()
        assert task.hears() == EndOne(number, politely=True)
        task.says(agent_protocol.STDOUT, b"", number)
        task.happens(RankEnded(number, code=4))
        task.happens(events.RankGone(number))
        assert _all(member) == [RankEnded(number, code=4), AllGone()]
        pipes = member.pipes[number]
        assert os.read(pipes.stdout, 99) == b"hello\n" and os.read(pipes.stdout, 99) == b""
        assert os.read(pipes.stderr, 99) == b"last words\n" and os.read(pipes.stderr, 99) == b""
        member.close()
        assert task.connection.is_free
    task.connection.close()
    assert task.sock.recv(9) == b""


def test_the_end_of_a_task_is_the_end_of_its_member() -> None:
    task = Task()
    task.gets_ready()
    member = task.connection.start(3, {}, 1.0)
    task.happens(events.RankStarted(3, 99))
    task.sock.close()
    assert _all(member) == [
        events.RankStarted(3, 99),
        RankEnded(3, signal=signal.SIGKILL),
        AllGone(),
    ]
    assert task.connection.is_over
    with pytest.raises(OSError, match="No route to host"):
        task.connection.start(4, {}, 1.0)
    member.close()


def test_a_member_that_prints_much_is_closed_while_its_line_waits() -> None:
    task = Task()
    task.gets_ready()
    member = task.connection.start(3, {}, 1.0)
    writes = threading.Thread(
        target=task.says, args=(agent_protocol.STDOUT, b"x" * (1 << 19), 3), daemon=True
    )
    writes.start()
    member.close()  # the driver reads none of it
    writes.join(30)
    assert not writes.is_alive() and task.connection.is_over


AGENT = """
import os
while data := os.read(0, 100):
    os.write(1, data.upper())
os.write(2, b"the input has ended")
"""


def test_the_relay_ends_the_agent_with_the_driver() -> None:
    driver, theirs = socket.socketpair()
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    relays = threading.Thread(
        target=agent_task.relay, args=(theirs, agent, b"order\n"), daemon=True
    )
    relays.start()
    driver.settimeout(30)
    driver.sendall(b"more")
    said = b""
    while not said.endswith(b"MORE"):
        said += driver.recv(100)
    assert said == b"ORDER\nMORE"
    driver.close()
    relays.join(30)
    assert agent.returncode == 0 and agent.stderr is not None
    assert agent.stderr.read() == b"the input has ended"
    agent.stderr.close()
    theirs.close()
