"""An elastic job on Spark: the driver of hvdlite.launch.elastic, with tasks for hosts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from hvdlite.launch import job
from hvdlite.launch.console import of_a_module
from hvdlite.launch.elastic.agents import Connector
from hvdlite.launch.elastic.context import Context, ElasticVerdict, Streams
from hvdlite.launch.elastic.delivery import ElasticDelivery
from hvdlite.launch.elastic.driver import PREFIX
from hvdlite.launch.elastic.options import Policy
from hvdlite.launch.elastic.run import drive
from hvdlite.rendezvous import StoreServer, addresses
from hvdlite.spark import sessions
from hvdlite.spark.elastic.census import Census
from hvdlite.spark.elastic.channels import Channels
from hvdlite.spark.elastic.station import Call
from hvdlite.spark.elastic.tasks import Tasks

_COMMAND = ["the rank"]  # in sentences about a member that does not start


@dataclass(frozen=True)
class Choice:
    """What a user has chosen besides the policy."""

    start_timeout: float
    grace_seconds: float
    environment: Mapping[str, str] = field(default_factory=dict)  # of all ranks
    interfaces: Sequence[str] = ()
    stdout: TextIO | None = None
    stderr: TextIO | None = None
    timestamps: bool = False


def run(session: Any, payload: bytes, policy: Policy, choice: Choice) -> list[Any]:
    """Returns the results of the last generation's ranks. `payload`: the pickled function."""
    verdict = ElasticVerdict({})
    results = ElasticDelivery(payload, verdict, policy.least, _COMMAND, every=True)
    asked = policy.most or policy.processes
    with of_a_module("hvdlite.spark", choice.stdout, choice.stderr, choice.timestamps) as console:
        options = job.JobOptions(grace_seconds=choice.grace_seconds)
        observer = job.watchable(results, _COMMAND, choice.environment, verdict, console, options)
        this = job.Job([], _COMMAND, {}, options, [], console, verdict, observer)
        with this.opened(PREFIX, everywhere=True) as opened, contextlib.ExitStack() as stack:
            door = stack.enter_context(StoreServer.reached(opened.key, everywhere=True))
            known = [] if choice.interfaces else [sessions.driver_host(session)]
            names = dict.fromkeys([*known, *addresses.of_this_machine(choice.interfaces)])
            call = Call(
                tuple(filter(None, names)),
                door.address[1],
                opened.store.address[1],
                opened.key,
                {**choice.environment, "HVDLITE_ELASTIC": "1", "HOROVOD_ELASTIC": "1"},
                choice.grace_seconds,
                policy.silence_seconds,
            )
            census = Census(policy.processes, asked, time.monotonic(), choice.start_timeout)
            channels = Channels(door.guests(), census, choice.grace_seconds, policy.silence_seconds)
            tasks = Tasks(session, call, asked, channels.failed)
            stack.callback(tasks.close)
            stack.callback(channels.hang_up)
            context = Context(
                console,
                this.log,
                _COMMAND,
                channels.start,
                near=[],
                several_hosts=False,  # the core finds out which ranks share a host
                streams=Streams(console, None, collapse=False),
                observer=observer,
                torch_run="",
                verdict=verdict,
            )
            drive(this, opened, policy, context, channels, Connector(_by_spark))
    return results.results


def _by_spark(host: str, slots: int, connector: Connector) -> None:
    """No agent is called: each task has brought its own."""
