"""The results of an elastic job, for `hvdlite.run(fn, min_num_proc=...)`, Ray and Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hvdlite.launch import delivery
from hvdlite.launch.console import Console
from hvdlite.launch.elastic.agents import Connector
from hvdlite.launch.elastic.context import Context, ElasticVerdict, Streams
from hvdlite.launch.elastic.driver import PREFIX
from hvdlite.launch.elastic.host_discovery import HostSource
from hvdlite.launch.elastic.options import Policy
from hvdlite.launch.elastic.run import drive
from hvdlite.launch.job import Job, JobOptions, OpenedJob, watchable
from hvdlite.launch.observers import JobObserver, Observers
from hvdlite.launch.spawn.elastic_ranks import RankStarter
from hvdlite.launch.verdict import is_consequence
from hvdlite.rendezvous import StoreClient


class ElasticDelivery(delivery.Delivery):
    """`least`: how many results are wanted; `every`: at least. They are those of the first ranks
    of the last generation. A rank that died behind the others' return is passed over."""

    def __init__(
        self,
        payload: bytes,
        verdict: ElasticVerdict,
        least: int,
        command: Sequence[str],
        every: bool = False,
    ) -> None:
        super().__init__(payload)
        self._verdict, self._least, self._command = verdict, least, command
        self._every = every

    def collect(self, client: StoreClient) -> list[Any]:
        verdict = self._verdict
        delivery.interrupted_by(verdict.interrupted or verdict.stopped)
        if verdict.status() != 0:
            self._fail(client)
        found: list[Any] = []
        for member in self._members():
            try:
                found.append(delivery.result(client, member, self._name(member)))
            except TimeoutError:
                continue
            if len(found) == self._least and not self._every:
                return found
        if len(found) >= self._least:
            return found
        raise RuntimeError(
            f"the function has returned on {len(found)} ranks, and {self._least} results are "
            "wanted (min_num_proc): the other ranks have ended without one, for example by "
            "sys.exit()"
        )

    def _members(self) -> list[int]:
        """Those of the last generation by rank, then others, which have returned before it."""
        last = self._verdict.ranks
        return [*last, *(member for member in sorted(self._verdict.hosts) if member not in last)]

    def _name(self, member: int) -> str:
        return f"member {member} on {self._verdict.hosts[member]}"

    def _fail(self, client: StoreClient) -> None:
        sentence = self._verdict.sentence(self._command).replace("hvdliterun: ", "")
        for member in sorted(self._verdict.hosts, reverse=True):
            report = delivery.failure_of(client, member)
            if report is not None and not is_consequence(report.last_line.encode()):
                delivery.fail(sentence, self._name(member), report)
        raise RuntimeError(sentence)


# Tells how members start and where the job finds its hosts. What it opens ends with the job.
Cluster = Callable[[OpenedJob, contextlib.ExitStack], tuple[RankStarter, HostSource]]


def run_on(
    cluster: Cluster,
    payload: bytes,
    policy: Policy,
    command: Sequence[str],
    knobs: Mapping[str, str],
    console: Console,
    options: JobOptions,
    *observers: JobObserver,
) -> list[Any]:
    """Returns the results of the last ranks of a job whose members another system starts, such as
    Ray or Spark. `payload`: the pickled function. `command`: what sentences call a member."""
    verdict = ElasticVerdict({})
    results = ElasticDelivery(payload, verdict, policy.least, command, every=True)
    observer = watchable(Observers(results, *observers), command, knobs, verdict, console, options)
    job = Job([], command, {}, options, [], console, verdict, observer)
    with job.opened(PREFIX, everywhere=True) as opened, contextlib.ExitStack() as stack:
        start, hosts = cluster(opened, stack)
        streams = Streams(console, None, collapse=False)
        # All members are of this host: no agent is called, and the core finds out which share one.
        context = Context(console, job.log, command, start, near=[], several_hosts=False,
                          streams=streams, observer=observer, torch_run="",
                          verdict=verdict)  # fmt: skip
        drive(job, opened, policy, context, hosts, Connector(lambda *_: None))
    return results.results
