"""An elastic job on Ray: the driver of hvdlite.launch.elastic, with an actor for each member."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.util.queue import Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hvdlite.job import basics
from hvdlite.launch import delivery, environment, task
from hvdlite.launch.console import of_a_module
from hvdlite.launch.elastic.delivery import run_on
from hvdlite.launch.elastic.discovery import Answer
from hvdlite.launch.elastic.host_discovery import HostDiscovery, HostSource
from hvdlite.launch.elastic.options import Policy
from hvdlite.launch.hosts import Host
from hvdlite.launch.job import JobOptions, OpenedJob
from hvdlite.launch.last_words import in_one_line
from hvdlite.launch.observers import JobObserver
from hvdlite.launch.spawn.elastic_ranks import ClusterRank, ElasticRank, RankStarter
from hvdlite.launch.spawn.events import AllGone, RankEnded
from hvdlite.ray import coordinator, identity, nodes, ray_logger
from hvdlite.ray.bundles import Need
from hvdlite.ray.ray_logger import Callback, pass_on
from hvdlite.ray.settings import ElasticSettings

_COMMAND = ["the actor"]  # in sentences about a member that does not start
_GLANCE_SECONDS = 0.2  # at the values for callbacks
_END_SECONDS = 10.0  # for Ray to tell of the end of a member


def run(
    function: Callable[[], Any],
    settings: ElasticSettings,
    need: Need,
    variables: Mapping[str, str],
    callbacks: Sequence[Callback],
) -> list[Any]:
    """Returns the results of the last generation's ranks. `variables`: for all members."""
    least, most = settings.min_num_proc, settings.max_num_proc
    policy = Policy(
        processes=least,
        least=least,
        most=most,
        elastic_timeout=settings.elastic_timeout,
        reset_limit=settings.reset_limit,
        cooldown_range=settings.cooldown_range,
    )

    def cluster(opened: OpenedJob, _: object) -> tuple[RankStarter, HostSource]:
        shared = coordinator.variables(opened.store.address[1], True, settings.timeout_s)
        shared |= {**variables, "HVDLITE_ELASTIC": "1", "HOROVOD_ELASTIC": "1"}
        return _Actors(need, shared, opened.key, queue).start, _Nodes(settings.discovery)

    payload = delivery.pickled_function((function, (), {}))
    with of_a_module("hvdlite.ray") as console, _queue(callbacks) as queue:
        values = _Callbacks(queue, callbacks)
        return run_on(cluster, payload, policy, _COMMAND, variables, console, JobOptions(), values)


class _Actors:
    """Starts members. `shared`: variables of all of them. `key`: the job's secret."""

    def __init__(self, need: Need, shared: Mapping[str, str], key: bytes, queue: Any) -> None:
        remote = ray.remote(num_cpus=need.cpus, num_gpus=need.gpus, max_restarts=0)
        self._kind = remote(ElasticWorker)
        self._shared, self._key, self._queue = shared, key, queue

    def start(self, member: int, own: Mapping[str, str]) -> ElasticRank:
        node = nodes.node_of(ray.nodes(), own["HOROVOD_HOSTNAME"])
        if node is None:  # it is gone since it was found
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
        where = NodeAffinitySchedulingStrategy(node, soft=False)
        actor = self._kind.options(scheduling_strategy=where).remote(member)
        ended = actor.run.remote({**self._shared, **own}, self._key, self._queue)
        return ActorRank(member, actor, ended)


class _Nodes(HostDiscovery):
    """Asks the discovery once a second."""

    patience = 5.0  # where Ray has lost its head node, an answer takes a minute

    def __init__(self, discovery: Any) -> None:
        self._discovery = discovery
        self._last: tuple[Host, ...] | None = None
        self._told = ""
        super().__init__(self._look)

    def _look(self) -> Answer:
        """Trouble is told once, and the last hosts stay."""
        try:
            found = self._discovery.find_available_hosts_and_slots()
            hosts = nodes.hosts(ray.nodes(), found)
        except Exception as error:
            trouble = f"the discovery of Ray's nodes has failed: {in_one_line(error)}."
            told, self._told = self._told, trouble
            return Answer(trouble="" if told == trouble else trouble)
        self._told = ""
        changed, self._last = hosts != self._last, hosts
        return Answer(hosts if changed else None)


class _Callbacks(JobObserver):
    def __init__(self, queue: Any, callbacks: Sequence[Callback]) -> None:
        self._queue, self._callbacks = queue, callbacks

    def tick(self) -> float | None:
        if self._queue is None:
            return None
        pass_on(self._queue, self._callbacks)
        return _GLANCE_SECONDS

    def end(self) -> None:
        self.tick()


@contextlib.contextmanager
def _queue(callbacks: Sequence[Callback]) -> Iterator[Any]:
    """The queue for values of ray_logger; None: there are no callbacks."""
    if not callbacks:
        yield None
        return
    queue = Queue(actor_options={"num_cpus": 0})
    try:
        yield queue
    finally:
        queue.shutdown(force=True)


class ElasticWorker:
    """The actor of a member."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __repr__(self) -> str:
        """Ray prints it before each line of this actor's output."""
        return f"member {self._number}"

    def run(self, variables: Mapping[str, str], key: bytes, queue: Any) -> tuple[int, str]:
        """Calls the job's function. Returns the exit status that a process would have, and the line
        that names its exception."""
        identity.join(variables, key)
        ray_logger.configure(queue)
        try:
            status, line = task.run(environment.discover(os.environ))
        except SystemExit as end:
            known = end.code is None or isinstance(end.code, int)
            status, line = (int(end.code or 0), "") if known else (1, str(end.code))
        if basics.is_initialized():
            basics.shutdown()
        return status, line


class ActorRank(ClusterRank):
    """The ElasticRank of one member. A thread waits for its end.

    Ray shows the output of actors. Its error stream here has the last line alone, for the verdict.
    """

    def __init__(self, number: int, actor: Any, ended: Any) -> None:
        """`ended`: the reference to what run() returns."""
        super().__init__(number)
        self._actor, self._ended = actor, ended
        os.close(self.ends["stdout"])
        self._thread = threading.Thread(target=self._wait, name="hvd-member", daemon=True)
        self._thread.start()

    def terminate(self) -> None:
        self.kill()

    def kill(self) -> None:
        ray.kill(self._actor)

    def forward(self, number: int) -> None:
        """Ray passes no signals on."""

    def ending_seconds(self, politely: bool) -> float:
        return _END_SECONDS

    def close(self) -> None:
        self.kill()
        self.close_pipes()
        self._thread.join(_END_SECONDS)
        self.news.close()

    def _wait(self) -> None:
        try:
            status, line = ray.get(self._ended)
            ended = RankEnded(self.number, code=status)
        except Exception as error:
            ended, line = RankEnded(self.number, signal=signal.SIGKILL), in_one_line(error)
        with contextlib.suppress(OSError):
            os.write(self.ends["stderr"], f"{line}\n".encode() if line else b"")
        os.close(self.ends["stderr"])
        ray.kill(self._actor)
        self.news.put(ended)
        self.news.put(AllGone())
