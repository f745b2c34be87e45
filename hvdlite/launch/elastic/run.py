"""An elastic job on this host: the steps in their order."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence

from hvdlite.launch import direct, job, plan
from hvdlite.launch.elastic.driver import PREFIX, Driver, ElasticVerdict, Surroundings
from hvdlite.launch.elastic.scout import Fixed, Scout
from hvdlite.launch.elastic.streams import Streams
from hvdlite.launch.elastic.wish import Wish
from hvdlite.rendezvous.addresses import join_address


def run(wish: Wish, command: Sequence[str], knobs: Mapping[str, str], options: job.Options) -> int:
    """Run the job to its end; returns the exit status. Main thread only."""
    verdict = ElasticVerdict({})
    this = job.of_the_command_line([], [], command, knobs, options, verdict)
    return this.conclude(lambda: supervise(this, wish, verdict))


def supervise(this: job.Job, wish: Wish, verdict: ElasticVerdict) -> None:
    """Runs until nothing of the job is left. Raises OSError or ValueError if it cannot start."""
    with this.opened(PREFIX) as opened, contextlib.ExitStack() as stack:
        this.log(f"the store is at {join_address(*opened.store.address)}")
        shared = plan.without_mpi(plan.job_environment(os.environ, this.knobs))
        shared |= plan.meeting_environment(("127.0.0.1", opened.store.address[1]))
        shared |= direct.share_cores(this, shared, wish.policy.processes)
        shared |= {"HVDLITE_ELASTIC": "1", "HOROVOD_ELASTIC": "1"}
        torch_run = ""
        if this.options.torch_env:
            torch_run = f"hvdlite-{opened.store.address[1]}"
            host, port = direct.torch_meeting(shared, "localhost", this.far)
            shared |= plan.torch_meeting(host or "127.0.0.1", port)
        descriptor, variables = direct.hand_over(opened.key, shared, stack)
        around = Surroundings(
            this.console,
            this.log,
            this.command,
            {**shared, **variables},
            descriptor,
            this.options.grace_seconds,
            Streams(this.console, this.options.output_directory, this.options.collapse),
            this.observer,
            torch_run,
            verdict,
        )
        assert opened.watched is not None
        source = Scout(wish.script, wish.slots_per_host) if wish.script else Fixed(wish.hosts)
        signals = stack.enter_context(contextlib.closing(this.signals()))
        driver = Driver(wish.policy, around, opened.store, opened.watched, source)
        with contextlib.closing(driver):
            driver.loop(signals.wake, signals.caught)
        signals.close()  # a signal that was held back takes its effect in the observer
        this.observer.end()
