"""An elastic job: the steps in their order."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hvdlite.launch import direct, job, plan
from hvdlite.launch.elastic import slurm
from hvdlite.launch.elastic.contacts import Contacts
from hvdlite.launch.elastic.crew import Policy
from hvdlite.launch.elastic.driver import PREFIX, Driver
from hvdlite.launch.elastic.scout import Fixed, Hostfile, Lookout, Scout
from hvdlite.launch.elastic.streams import Streams
from hvdlite.launch.elastic.surroundings import ElasticVerdict, Surroundings
from hvdlite.launch.elastic.wish import Wish
from hvdlite.launch.spawn import local, ssh
from hvdlite.launch.spawn.agent_protocol import Order
from hvdlite.launch.spawn.parties import Starter
from hvdlite.rendezvous.addresses import join_address


def run(wish: Wish, command: Sequence[str], knobs: Mapping[str, str], options: job.Options) -> int:
    """Run the job to its end; returns the exit status. Main thread only."""
    verdict = ElasticVerdict({})
    names = [host.name for host in wish.hosts]
    this = job.of_the_command_line(names, [], command, knobs, options, verdict)
    return this.conclude(lambda: supervise(this, wish, verdict))


def supervise(this: job.Job, wish: Wish, verdict: ElasticVerdict) -> None:
    """Runs until nothing of the job is left. Raises OSError or ValueError if it cannot start."""
    names = [host.name for host in wish.hosts]
    may_grow = bool(wish.script or wish.hostfile)
    with this.opened(PREFIX, everywhere=may_grow) as opened, contextlib.ExitStack() as stack:
        slurm.warn(this.console.say)
        this.log(f"the store is at {join_address(*opened.store.address)}")
        shared = plan.without_mpi(plan.job_environment(os.environ, this.knobs))
        shared |= {"HVDLITE_ELASTIC": "1", "HOROVOD_ELASTIC": "1"}
        torch = ("", 0)
        if this.options.torch_env:
            torch = direct.torch_rendezvous(shared, names[0], this.far)
        by = replace(this.options.ssh, in_slurm=wish.in_slurm)
        # Without this host's number of threads: agents decide for their hosts.
        contacts = Contacts(_reach(this, direct.order(this, opened, shared, torch), by))
        shared |= plan.rendezvous_environment(("127.0.0.1", opened.store.address[1]))
        if this.options.torch_env:
            shared |= plan.torch_rendezvous(torch[0] or "127.0.0.1", torch[1])
        shared |= direct.share_cores(this, shared, _ranks_here(wish, this.far))
        around = Surroundings(
            this.console,
            this.log,
            this.command,
            _starter(this, shared, direct.hand_over(opened.key, shared, stack)),
            near=[name for name in names if name not in this.far],
            several_hosts=may_grow or len(names) > 1,
            streams=Streams(this.console, this.options.output_directory, this.options.collapse),
            observer=this.observer,
            torch_run=f"hvdlite-{opened.store.address[1]}" if this.options.torch_env else "",
            verdict=verdict,
        )
        policy = replace(wish.policy, silence_seconds=this.options.ssh.silence_seconds)
        drive(this, opened, policy, around, _source(wish), contacts)


def drive(
    this: job.Job,
    opened: job.Opened,
    policy: Policy,
    around: Surroundings,
    source: Lookout | Fixed,
    contacts: Contacts,
) -> None:
    """The driver's part: from the first look at the hosts until no member is left."""
    assert opened.watched is not None
    with contextlib.closing(this.signals()) as signals:
        driver = Driver(policy, around, opened.store, opened.watched, source, contacts)
        with contextlib.closing(driver):
            driver.loop(signals.wake, signals.caught)
        signals.close()  # a signal that was held back takes its effect in the observer
        this.observer.end()


def _starter(
    this: job.Job, shared: Mapping[str, str], handed: tuple[int | None, Mapping[str, str]]
) -> Starter:
    """How members of this host are started. `handed`: what direct.hand_over() returns."""
    descriptor, variables = handed

    def start(member: int, own: Mapping[str, str]) -> local.Ranks:
        environment, grace = {**shared, **variables}, this.options.grace_seconds
        return local.start(this.command, environment, {member: own}, descriptor, grace)

    return start


def _ranks_here(wish: Wish, far: Sequence[str]) -> int:
    """How many ranks this host has at the start, at most. Pure."""
    slots = sum(host.slots for host in wish.hosts if host.name not in far)
    if not slots and (wish.script or wish.hostfile):  # it may be named later
        return wish.policy.processes
    return min(slots, wish.policy.processes)


def _source(wish: Wish) -> Scout | Hostfile | Fixed:
    if wish.script:
        return Scout(wish.script, wish.slots_per_host)
    if wish.hostfile:
        return Hostfile(wish.hostfile, wish.slots_per_host, wish.hosts)
    return Fixed(wish.hosts)


def _reach(
    this: job.Job, order: Order, by: ssh.Options
) -> Callable[[str, int, Contacts], ssh.Remote | None]:
    """How threads reach a host."""

    def reach(host: str, slots: int, contacts: Contacts) -> ssh.Remote | None:
        if not job.elsewhere([host]):
            return None
        [agent] = ssh.contact(
            {host: replace(order, slots=slots, bind="none")},
            by,
            os.environ,
            this.options.start_timeout,
            contacts.say,
            log=contacts.say if this.options.verbose else lambda text: None,
            cancel=contacts.over,
        )
        return agent

    return reach
