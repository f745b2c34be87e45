"""An elastic job on Spark: the driver of hvdlite.launch.elastic, with tasks for hosts."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from hvdlite.launch.console import of_a_module
from hvdlite.launch.elastic.delivery import run_on
from hvdlite.launch.elastic.options import Policy
from hvdlite.launch.job import JobOptions, OpenedJob
from hvdlite.launch.spawn.elastic_ranks import RankStarter
from hvdlite.rendezvous import StoreServer, addresses
from hvdlite.spark import outcome, sessions
from hvdlite.spark.elastic.agent_task import ElasticOrder
from hvdlite.spark.elastic.connection import TaskConnections
from hvdlite.spark.elastic.hosts import TaskHosts

_COMMAND = ["the rank"]  # in sentences about a member that does not start
# Between two tasks of one job; it is doubled while tasks end at once.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_AT_ONCE_SECONDS = 10.0
# Tasks whose connections have ended return by themselves. The others are cancelled, which takes the
# two seconds that Spark gives a Python worker.
_RETURN_SECONDS, _CANCEL_SECONDS = 3.0, 20.0


@dataclass(frozen=True)
class ElasticChoices:
    """What a user has chosen besides the policy."""

    start_timeout: float
    grace_seconds: float
    environment: Mapping[str, str] = field(default_factory=dict)  # of all ranks
    interfaces: Sequence[str] = ()
    stdout: TextIO | None = None
    stderr: TextIO | None = None
    timestamps: bool = False


def run(session: Any, payload: bytes, policy: Policy, choice: ElasticChoices) -> list[Any]:
    """Returns the results of the last generation's ranks. `payload`: the pickled function."""
    asked = policy.most or policy.processes

    def cluster(
        opened: OpenedJob, stack: contextlib.ExitStack
    ) -> tuple[RankStarter, TaskConnections]:
        door = stack.enter_context(StoreServer.reached(opened.key, everywhere=True))
        known = [] if choice.interfaces else [sessions.driver_host(session)]
        names = dict.fromkeys([*known, *addresses.of_this_machine(choice.interfaces)])
        order = ElasticOrder(
            tuple(filter(None, names)),
            door.address[1],
            opened.store.address[1],
            opened.key,
            {**choice.environment, "HVDLITE_ELASTIC": "1", "HOROVOD_ELASTIC": "1"},
            choice.grace_seconds,
            policy.silence_seconds,
        )
        hosts = TaskHosts(policy.processes, asked, time.monotonic(), choice.start_timeout)
        connections = TaskConnections(
            door.guests(), hosts, choice.grace_seconds, policy.silence_seconds
        )
        tasks = Tasks(session, order, asked, connections.failed)
        stack.callback(tasks.close)
        stack.callback(connections.hang_up)
        return connections.start, connections

    options = JobOptions(grace_seconds=choice.grace_seconds)
    with of_a_module("hvdlite.spark", choice.stdout, choice.stderr, choice.timestamps) as console:
        return run_on(cluster, payload, policy, _COMMAND, choice.environment, console, options)


# Keeps jobs of Spark running, of one task each.


class Tasks:
    """`count`: how many slots to ask for. `failed` gets Spark's reason for each task that has
    failed, in any thread."""

    def __init__(
        self, session: Any, order: ElasticOrder, count: int, failed: Callable[[str], None]
    ) -> None:
        self._session, self._order, self._failed = session, order, failed
        self._tag = f"hvdlite-{secrets.token_hex(4)}"
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep, name="hvd-spark-job", daemon=True)
            for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._closing.set()
        self._join(_RETURN_SECONDS)
        if any(thread.is_alive() for thread in self._threads):
            sessions.cancel(self._session, self._tag)
            self._join(_CANCEL_SECONDS)

    def _join(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _keep(self) -> None:
        """Spark itself repeats a task that has failed; when it has given up, this begins anew."""
        sessions.tag(self._session, self._tag)
        pause = _FIRST_PAUSE
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                frame = self._session.range(0, 1, 1, 1)
                frame.mapInArrow(_task(self._order), "done int").collect()
            except Exception as error:
                if not self._closing.is_set():
                    self._failed(outcome.why(str(error)))
            lasted = time.monotonic() - began
            pause = _FIRST_PAUSE if lasted > _AT_ONCE_SECONDS else min(2 * pause, _LONGEST_PAUSE)
            self._closing.wait(pause)


def _task(order: ElasticOrder) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What Spark pickles. The executors need hvdlite and pyarrow."""

    def hvdlite_slot(batches: Iterator[Any]) -> Iterator[Any]:
        from hvdlite.spark.elastic import agent_task

        for _ in batches:
            pass
        agent_task.serve(order)
        yield from ()

    return hvdlite_slot
