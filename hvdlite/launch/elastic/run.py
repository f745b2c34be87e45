"""An elastic job: the steps in their order."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hvdlite.launch import direct, plan, secret
from hvdlite.launch.elastic.agents import Connector
from hvdlite.launch.elastic.context import Context, ElasticVerdict, Streams
from hvdlite.launch.elastic.driver import PREFIX, Driver
from hvdlite.launch.elastic.host_discovery import (
    FixedHosts,
    HostfileDiscovery,
    HostSource,
    ScriptDiscovery,
)
from hvdlite.launch.elastic.options import ElasticOptions, Policy
from hvdlite.launch.job import Job, JobOptions, OpenedJob, elsewhere, of_the_command_line
from hvdlite.launch.spawn import local, ssh
from hvdlite.launch.spawn.agent_protocol import AgentOrder
from hvdlite.launch.spawn.elastic_ranks import RankStarter
from hvdlite.rendezvous.addresses import join_address

# sbatch's and salloc's variables with the effect of --no-kill.
_NO_KILL = ("SBATCH_NO_KILL", "SALLOC_NO_KILL")
_SCONTROL_SECONDS = 5.0


def run(
    options: ElasticOptions,
    command: Sequence[str],
    knobs: Mapping[str, str],
    job_options: JobOptions,
) -> int:
    """Run the job to its end; returns the exit status. Main thread only."""
    verdict = ElasticVerdict({})
    names = [host.name for host in options.hosts]
    job = of_the_command_line(names, [], command, knobs, job_options, verdict)
    with job.concluded() as end:
        supervise(job, options, verdict)
    return end.status


def supervise(job: Job, options: ElasticOptions, verdict: ElasticVerdict) -> None:
    """Runs until nothing of the job is left. Raises OSError or ValueError if it cannot start."""
    names = [host.name for host in options.hosts]
    may_grow = bool(options.script or options.hostfile)
    with job.opened(PREFIX, everywhere=may_grow) as opened, contextlib.ExitStack() as stack:
        _warn_of_slurm(job.console.say)
        job.log(f"the store is at {join_address(*opened.store.address)}")
        shared = plan.without_mpi(plan.job_environment(os.environ, job.knobs))
        shared |= {"HVDLITE_ELASTIC": "1", "HOROVOD_ELASTIC": "1"}
        torch = ("", 0)
        if job.options.torch_env:
            torch = direct.torch_rendezvous(shared, names[0], job.far)
        by = replace(job.options.ssh, in_slurm=options.in_slurm)
        # Without this host's number of threads: agents decide for their hosts.
        connector = Connector(_reach(job, direct.order(job, opened, shared, torch), by))
        shared |= plan.rendezvous_environment(("127.0.0.1", opened.store.address[1]))
        if job.options.torch_env:
            shared |= plan.torch_rendezvous(torch[0] or "127.0.0.1", torch[1])
        shared |= direct.share_cores(job, shared, _ranks_here(options, job.far))
        context = Context(
            job.console,
            job.log,
            job.command,
            _starter(job, shared, secret.hand_over(opened.key, shared, stack)),
            near=[name for name in names if name not in job.far],
            several_hosts=may_grow or len(names) > 1,
            streams=Streams(job.console, job.options.output_directory, job.options.collapse),
            observer=job.observer,
            torch_run=f"hvdlite-{opened.store.address[1]}" if job.options.torch_env else "",
            verdict=verdict,
        )
        policy = replace(options.policy, silence_seconds=job.options.ssh.silence_seconds)
        drive(job, opened, policy, context, _source(options), connector)


def drive(
    job: Job,
    opened: OpenedJob,
    policy: Policy,
    context: Context,
    source: HostSource,
    connector: Connector,
) -> None:
    """The driver's part: from the first look at the hosts until no member is left."""
    assert opened.watched is not None
    with contextlib.closing(job.signals()) as signals:
        driver = Driver(policy, context, opened.store, opened.watched, source, connector)
        with contextlib.closing(driver):
            driver.loop(signals.wake, signals.caught)
        signals.close()  # a signal that was held back takes its effect in the observer
        job.observer.end()


def _starter(
    job: Job, shared: Mapping[str, str], handed: tuple[int | None, Mapping[str, str]]
) -> RankStarter:
    """How members of this host are started. `handed`: what secret.hand_over() returns."""
    descriptor, variables = handed

    def start(member: int, own: Mapping[str, str]) -> local.LocalRanks:
        environment, grace = {**shared, **variables}, job.options.grace_seconds
        return local.start(job.command, environment, {member: own}, descriptor, grace)

    return start


def _ranks_here(options: ElasticOptions, far: Sequence[str]) -> int:
    """How many ranks this host has at the start, at most. Pure."""
    slots = sum(host.slots for host in options.hosts if host.name not in far)
    may_be_named_later = not slots and (options.script or options.hostfile)
    return options.policy.processes if may_be_named_later else min(slots, options.policy.processes)


def _source(options: ElasticOptions) -> HostSource:
    if options.script:
        return ScriptDiscovery(options.script, options.slots_per_host)
    if options.hostfile:
        return HostfileDiscovery(options.hostfile, options.slots_per_host, options.hosts)
    return FixedHosts(options.hosts)


def _reach(
    job: Job, order: AgentOrder, by: ssh.SshOptions
) -> Callable[[str, int, Connector], ssh.RemoteRanks | None]:
    """How threads reach a host."""

    def reach(host: str, slots: int, connector: Connector) -> ssh.RemoteRanks | None:
        if not elsewhere([host]):
            return None
        [agent] = ssh.contact(
            {host: replace(order, slots=slots, bind="none")},
            by,
            os.environ,
            job.options.start_timeout,
            connector.put,
            log=connector.put if job.options.verbose else lambda text: None,
            cancel=connector.over,
        )
        return agent

    return reach


# Slurm: whether it ends the whole job when a node fails.


def _warn_of_slurm(say: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> None:
    if in_several_nodes(environ) and not survives_a_node(
        environ, _batch_script(environ["SLURM_JOB_ID"])
    ):
        say(
            "Slurm ends the whole job when one of its nodes fails, unless it was submitted with "
            "--no-kill. Neither the batch script nor SBATCH_NO_KILL says so here."
        )


def in_several_nodes(environ: Mapping[str, str]) -> bool:
    """Whether this is an allocation of several nodes. Pure."""
    nodes = environ.get("SLURM_JOB_NUM_NODES", environ.get("SLURM_NNODES", ""))
    return bool(environ.get("SLURM_JOB_ID")) and nodes.isdecimal() and int(nodes) > 1


def survives_a_node(environ: Mapping[str, str], script: str) -> bool:
    """Whether a variable or a line of the batch script says that the job survives a node. Pure."""
    for name in _NO_KILL:
        if environ.get(name, "no").lower() not in ("no", "off"):
            return True
    said = False
    for options in re.findall(r"^#SBATCH\s+(.*)", script, re.M):
        for word in shlex.split(options, comments=True):
            if re.fullmatch(r"-\w*k\w*|--no-kill(=.*)?", word):
                said = not word.lower().endswith(("=no", "=off"))
    return said


def _batch_script(job: str) -> str:
    """Empty where there is none, as with salloc, or where Slurm does not answer."""
    try:
        done = subprocess.run(
            ["scontrol", "write", "batch_script", job, "-"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SCONTROL_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
