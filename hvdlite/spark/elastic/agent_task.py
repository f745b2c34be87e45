"""What a task of Spark does for an elastic job: it offers one slot, until the driver ends the job.

    driver ◄──socket──► task ◄──pipes──► hvdlite.launch.agent ──guardian──► rank

The agent is that of hvdliterun: it starts and ends ranks as it is told, and kills them when its
input ends. So they end with the task, whatever ends the task.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from hvdlite.launch import machine
from hvdlite.launch.attach.client import dial
from hvdlite.launch.spawn.agent_protocol import AgentOrder
from hvdlite.launch.spawn.guardian import KILL_SECONDS
from hvdlite.launch.spawn.silent_hosts import socket_options
from hvdlite.rendezvous import addresses
from hvdlite.spark import placement

_REACH_SECONDS = 30.0
_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class ElasticOrder:
    """What the driver asks of every task, and where the driver is."""

    addresses: tuple[str, ...]
    port: int  # where tasks connect
    store_port: int  # of the job's store
    key: bytes = field(repr=False)  # of both
    environment: Mapping[str, str] = field(default_factory=dict)
    grace_seconds: float = 5.0
    silence_seconds: float = 10.0


@dataclass(frozen=True)
class TaskHello:
    """The first line that a task sends. `host`: equal for tasks whose ranks can share memory."""

    host: str
    name: str

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def serve(order: ElasticOrder) -> None:
    """Runs in the main thread of Spark's Python worker, until the driver ends it."""
    from pyspark import TaskContext

    environment = placement.environment(order.environment, placement.gpus(TaskContext.get()))
    offered = [(host, order.port) for host in order.addresses]
    address, client = addresses.reach(offered, order.key, _REACH_SECONDS)
    client.close()
    with contextlib.closing(dial(address, order.key)) as driver:
        driver.settimeout(None)
        for level, option, value in socket_options(order.silence_seconds):
            driver.setsockopt(level, option, value)
        driver.sendall(TaskHello(machine.host_identity(os.environ), socket.gethostname()).encode())
        # Its session is its own, because Spark sends SIGTERM and SIGHUP to the worker's group.
        agent = subprocess.Popen(
            [sys.executable, "-m", "hvdlite.launch.agent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        relay(driver, agent, _agent_order(order).encode())


def _agent_order(elastic: ElasticOrder) -> AgentOrder:
    return AgentOrder(
        secret=elastic.key.hex(),
        port=elastic.store_port,
        addresses=elastic.addresses,
        addresses_chosen=True,
        patience=_REACH_SECONDS,
        directory=os.getcwd(),
        command=[sys.executable, "-m", "hvdlite.launch.task"],
        environment={},
        ranks={},
        bind="none",
        grace_seconds=elastic.grace_seconds,
        torch_host="",
        torch_port=0,
        silence_seconds=elastic.silence_seconds,
        slots=1,
    )


def relay(driver: socket.socket, agent: subprocess.Popen[bytes], order: bytes) -> None:
    """Passes bytes on in both directions, until the driver or the agent ends. Then it ends the
    agent, which kills what it has started."""
    assert agent.stdin is not None and agent.stdout is not None
    to_agent, from_agent = agent.stdin, agent.stdout.fileno()

    def obey() -> None:
        with contextlib.suppress(OSError), to_agent:  # one of them has ended
            to_agent.write(order)
            to_agent.flush()
            _pass_on(lambda: driver.recv(_READ_BYTES), lambda data: _write(to_agent.fileno(), data))

    thread = threading.Thread(target=obey, name="hvd-spark-orders", daemon=True)
    thread.start()
    try:
        with contextlib.suppress(OSError):  # the driver has ended
            _pass_on(lambda: os.read(from_agent, _READ_BYTES), driver.sendall)
    finally:
        with contextlib.suppress(OSError):
            driver.shutdown(socket.SHUT_RDWR)
        thread.join()
        try:
            agent.wait(2 * KILL_SECONDS)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()
        agent.stdout.close()


def _pass_on(read: Callable[[], bytes], write: Callable[[bytes], object]) -> None:
    while data := read():
        write(data)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
