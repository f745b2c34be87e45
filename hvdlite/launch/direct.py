"""One job whose ranks we start ourselves, here and by ssh: the steps in their order."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hvdlite.launch import job, plan, secret, watch
from hvdlite.launch.address import join_address
from hvdlite.launch.spawn import local, ssh
from hvdlite.launch.spawn.events import Group
from hvdlite.launch.spawn.order import Order
from hvdlite.launch.verdict import Verdict
from hvdlite.rendezvous import addresses

# How long an agent looks for the store: the store is there already, so this is about the network only.
_PATIENCE = 10.0


def run(slots: Sequence[plan.Slot], command: Sequence[str], knobs: Mapping[str, str], options: job.Options) -> int:
    """Run the job to its end; returns the exit status. Main thread only."""
    hosts = {slot.rank: slot.host for slot in slots}
    this = job.of_the_command_line(hosts.values(), slots, command, knobs, options, Verdict(hosts))
    return this.conclude(lambda: supervise(this))


def supervise(this: job.Job) -> None:
    """From the secret until nothing of the job is left, by whatever way this is left. OSError, ValueError: it cannot start."""
    slots, options = this.slots, this.options
    hosts = list(dict.fromkeys(slot.host for slot in slots))
    with this.opened() as opened, contextlib.ExitStack() as stack:
        port = opened.store.address[1]
        this.log(f"the store is at {join_address(*opened.store.address)}")
        shared = plan.without_mpi(plan.job_environment(os.environ, this.knobs))
        text = os.environ.get(secret.TEXT_VARIABLE)
        if text:
            shared[secret.TEXT_VARIABLE] = text
        own = {slot.rank: plan.rank_environment(slot, several_hosts=len(hosts) > 1) for slot in slots}
        groups: dict[str, Group] = {}
        if this.far:
            common = Order(
                secret=opened.key.hex(),
                port=port,
                addresses=addresses.of_this_machine(options.interfaces),
                addresses_chosen=bool(options.interfaces),
                patience=min(_PATIENCE, options.start_timeout / 2),
                directory=os.getcwd(),
                command=list(this.command),
                environment=plan.travelling(shared),
                ranks={},
                grace_seconds=options.grace_seconds,
                silence_seconds=options.ssh.silence_seconds,
            )
            orders = {host: replace(common, ranks=_of(host, slots, own)) for host in this.far}
            remotes = ssh.contact(
                orders,
                options.ssh,
                os.environ,
                options.start_timeout,
                this.console.say,
                this.log,
                this.console.show_phases,
            )
            stack.callback(ssh.close, remotes)
            groups |= {remote.host: remote for remote in remotes}
        near = {slot.rank: own[slot.rank] for slot in slots if slot.host not in this.far}
        signals = stack.enter_context(contextlib.closing(watch.Signals()))
        if near:
            groups[next(host for host in hosts if host not in this.far)] = _start_here(
                this, shared | plan.meeting_environment(("127.0.0.1", port)), near, opened.key, stack
            )
        for group in groups.values():
            if isinstance(group, ssh.Remote):
                group.start()
        this.watch(groups, opened.streams, signals)
        this.verdict.met = not opened.store.is_empty()


def _of(host: str, slots: Sequence[plan.Slot], own: Mapping[int, Mapping[str, str]]) -> Mapping[int, Mapping[str, str]]:
    return {slot.rank: own[slot.rank] for slot in slots if slot.host == host}


def _start_here(
    this: job.Job,
    shared: Mapping[str, str],
    own: Mapping[int, Mapping[str, str]],
    key: bytes,
    stack: contextlib.ExitStack,
) -> local.Ranks:
    """The ranks of this host, and on `stack` what ends them."""
    descriptor = None
    if secret.TEXT_VARIABLE not in shared:
        descriptor = secret.store(key)
        stack.callback(os.close, descriptor)
        shared = {**shared, secret.DESCRIPTOR_VARIABLE: str(descriptor)}
    ranks = local.start(this.command, shared, own, descriptor, this.options.grace_seconds)
    stack.callback(ranks.close)
    return ranks
