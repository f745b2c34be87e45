"""An elastic job on Ray: the driver of hvdlite.launch.elastic, with actors for processes."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.util.queue import Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hvdlite.launch import delivery, job
from hvdlite.launch.console import of_a_module
from hvdlite.launch.elastic.contacts import Contacts
from hvdlite.launch.elastic.crew import Policy
from hvdlite.launch.elastic.discovery import Answer
from hvdlite.launch.elastic.driver import PREFIX
from hvdlite.launch.elastic.function import ElasticDelivery
from hvdlite.launch.elastic.run import drive
from hvdlite.launch.elastic.scout import Lookout
from hvdlite.launch.elastic.streams import Streams
from hvdlite.launch.elastic.surroundings import ElasticVerdict, Surroundings
from hvdlite.launch.hosts import Host
from hvdlite.launch.last_words import in_one_line
from hvdlite.launch.observers import Observers
from hvdlite.launch.spawn.parties import Party
from hvdlite.launch.watch import JobObserver
from hvdlite.ray import meeting, nodes
from hvdlite.ray.bundles import Need
from hvdlite.ray.callbacks import Callback, pass_on
from hvdlite.ray.member import Member, MemberActor
from hvdlite.ray.settings import ElasticSettings

_COMMAND = ["the actor"]  # in sentences about a member that does not start
_GLANCE_SECONDS = 0.2  # at the values for callbacks


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
    payload = delivery.pickled_function((function, (), {}))
    verdict = ElasticVerdict({})
    results = ElasticDelivery(payload, verdict, least, _COMMAND, every=True)
    with of_a_module("hvdlite.ray") as console, _queue(callbacks) as queue:
        observer: JobObserver = Observers(results, _Callbacks(queue, callbacks))
        options = job.Options()
        observer = job.watchable(observer, _COMMAND, variables, verdict, console, options)
        this = job.Job([], _COMMAND, {}, options, [], console, verdict, observer)
        with this.opened(PREFIX, everywhere=True) as opened:
            shared = meeting.variables(opened.store.address[1], True, settings.timeout_s)
            shared |= {**variables, "HVDLITE_ELASTIC": "1", "HOROVOD_ELASTIC": "1"}
            around = Surroundings(
                console,
                this.log,
                _COMMAND,
                _Actors(need, shared, opened.key, queue).start,
                near=[],
                several_hosts=False,  # the core finds out which ranks share a host
                streams=Streams(console, None, collapse=False),
                observer=observer,
                torch_run="",
                verdict=verdict,
            )
            drive(this, opened, policy, around, _Nodes(settings.discovery), Contacts(_by_ray))
    return results.results


class _Actors:
    """Starts members. `shared`: variables of all of them. `key`: the job's secret."""

    def __init__(self, need: Need, shared: Mapping[str, str], key: bytes, queue: Any) -> None:
        self._kind = ray.remote(num_cpus=need.cpus, num_gpus=need.gpus, max_restarts=0)(Member)
        self._shared, self._key, self._queue = shared, key, queue

    def start(self, member: int, own: Mapping[str, str]) -> Party:
        node = nodes.node_of(ray.nodes(), own["HOROVOD_HOSTNAME"])
        if node is None:  # it is gone since it was found
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
        where = NodeAffinitySchedulingStrategy(node, soft=False)
        actor = self._kind.options(scheduling_strategy=where).remote(member)
        ended = actor.run.remote({**self._shared, **own}, self._key, self._queue)
        return MemberActor(member, actor, ended)


class _Nodes(Lookout):
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


def _by_ray(host: str, slots: int, contacts: Contacts) -> None:
    """No agent is needed: Ray starts actors on every node."""


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
