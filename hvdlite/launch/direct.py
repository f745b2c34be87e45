"""A job whose ranks hvdliterun starts itself, here and by ssh: the steps in their order."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hvdlite.launch import machine, plan, secret
from hvdlite.launch.job import Job, JobOptions, OpenedJob, of_the_command_line, ranks_have_met
from hvdlite.launch.spawn import local, ssh
from hvdlite.launch.spawn.agent_protocol import AgentOrder
from hvdlite.launch.spawn.events import RankGroup
from hvdlite.launch.verdict import Verdict
from hvdlite.rendezvous import addresses
from hvdlite.rendezvous.addresses import join_address

# How long an agent looks for the store. The store exists already, so only the network matters.
_PATIENCE = 10.0
# Once in a process, for any number of jobs that a notebook starts.
_told: set[str] = set()


def run(
    slots: Sequence[plan.Slot],
    command: Sequence[str],
    knobs: Mapping[str, str],
    options: JobOptions,
) -> int:
    """Runs the job to its end and returns the exit status. Main thread only."""
    hosts = {slot.rank: slot.host for slot in slots}
    job = of_the_command_line(hosts.values(), slots, command, knobs, options, Verdict(hosts))
    with job.concluded() as end:
        supervise(job)
    return end.status


def supervise(job: Job) -> None:
    """Runs from the secret until nothing of the job is left, even if an exception ends it. Raises
    OSError or ValueError if the job cannot start."""
    slots, options = job.slots, job.options
    hosts = list(dict.fromkeys(slot.host for slot in slots))
    with job.opened() as opened, contextlib.ExitStack() as stack:
        port = opened.store.address[1]
        job.log(f"the store is at {join_address(*opened.store.address)}")
        shared = plan.without_mpi(plan.job_environment(os.environ, job.knobs))
        text = os.environ.get(secret.TEXT_VARIABLE)
        if text:
            shared[secret.TEXT_VARIABLE] = text
        several = len(hosts) > 1
        own = {slot.rank: plan.rank_environment(slot, several_hosts=several) for slot in slots}
        torch = ("", 0)
        if options.torch_env:
            torch = torch_rendezvous(shared, hosts[0], job.far)
            for rank, environment in plan.torch_environment(slots, f"hvdlite-{port}").items():
                own[rank] |= environment
        near = {slot.rank: own[slot.rank] for slot in slots if slot.host not in job.far}
        threads = share_cores(job, shared, len(near))  # of this host; agents decide for theirs
        groups: dict[str, RankGroup] = {}
        remotes: list[ssh.RemoteRanks] = []
        if job.far:
            common = order(job, opened, shared, torch)
            orders = {
                host: replace(common, ranks={s.rank: own[s.rank] for s in slots if s.host == host})
                for host in job.far
            }
            remotes = ssh.contact(
                orders, options.ssh, os.environ, options.start_timeout, job.console.say, job.log,
                job.console.show_phases,
            )  # fmt: skip
            stack.callback(ssh.close, remotes)
            groups |= {remote.host: remote for remote in remotes}
        signals = stack.enter_context(contextlib.closing(job.signals()))
        if near and options.torch_env:
            seen = remotes[0].address.rpartition(":")[0].strip("[]") if remotes else "127.0.0.1"
            shared |= plan.torch_rendezvous(torch[0] or seen, torch[1])
        if near:
            shared |= {**threads, **plan.rendezvous_environment(("127.0.0.1", port))}
            here = next(host for host in hosts if host not in job.far)
            groups[here] = _start_here(job, shared, near, opened.key, stack)
        for remote in remotes:
            remote.start()
        job.watch(groups, opened.streams, signals)
        job.verdict.has_met = options.torch_env or ranks_have_met(opened.store)


def order(
    job: Job,
    opened: OpenedJob,
    shared: Mapping[str, str],
    torch: tuple[str, int] = ("", 0),
) -> AgentOrder:
    """Returns the order for an agent, without ranks."""
    options = job.options
    return AgentOrder(
        secret=opened.key.hex(),
        port=opened.store.address[1],
        addresses=addresses.of_this_machine(options.interfaces),
        addresses_chosen=bool(options.interfaces),
        patience=min(_PATIENCE, options.start_timeout / 2),
        directory=os.getcwd(),
        command=list(job.command),
        environment=plan.travelling(shared),
        ranks={},
        bind=options.bind,
        grace_seconds=options.grace_seconds,
        torch_host=torch[0],
        torch_port=torch[1],
        silence_seconds=options.ssh.silence_seconds,
    )


def torch_rendezvous(
    environment: Mapping[str, str], first: str, far: Sequence[str]
) -> tuple[str, int]:
    """Returns the host, empty for this machine, and the port where torch's rank 0 will listen. The
    user may have chosen them."""
    host = environment.get("MASTER_ADDR") or (plan.torch_host(first) if first in far else "")
    text = environment.get("MASTER_PORT")
    if not text:
        return host, addresses.quiet_port()
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise ValueError(f"MASTER_PORT={text!r} is not allowed: expected a port.")
    return host, int(text)


def share_cores(job: Job, environment: Mapping[str, str], ranks: int) -> Mapping[str, str]:
    """Returns the variables for the threads of this host's ranks, and says so. Says as well if the
    host has fewer cores than ranks. Agents do this on other hosts."""
    cores = machine.here(environment).cores
    given = machine.threads(environment, cores, ranks)
    sentences = [machine.about_cores(ranks, cores)]
    if given or (job.far and machine.THREADS not in environment):
        sentences.append(machine.about_threads(given, cores, bool(job.far)))
    for sentence in sentences:
        if sentence and sentence not in _told:
            _told.add(sentence)
            job.console.say(sentence)
    return given


def _start_here(
    job: Job,
    shared: Mapping[str, str],
    own: Mapping[int, Mapping[str, str]],
    key: bytes,
    stack: contextlib.ExitStack,
) -> local.LocalRanks:
    """Starts the ranks of this host. What ends them goes on `stack`."""
    processors = machine.shares_here(job.options.bind, own.keys())
    for rank, numbers in processors.items():
        job.log(f"rank {rank} gets the processors {', '.join(map(str, numbers))} (--bind)")
    descriptor, variables = secret.hand_over(key, shared, stack)
    everywhere = {**shared, **variables}
    ranks = local.start(
        job.command, everywhere, own, descriptor, job.options.grace_seconds, processors=processors
    )
    stack.callback(ranks.close)
    return ranks
