"""Each host of a job chooses the threads of its own ranks: the launcher's host does not choose for
others."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hvdlite.launch import direct, job, machine, plan
from hvdlite.launch.elastic import run
from hvdlite.launch.elastic.context import ElasticVerdict
from hvdlite.launch.elastic.options import ElasticOptions, Policy
from hvdlite.launch.hosts import Host
from hvdlite.launch.machine import THREADS, Machine
from hvdlite.launch.verdict import Verdict

FAR = "me@far"


class _Enough(Exception):
    """What ranks are started with is known."""


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS, raising=False)
    monkeypatch.setattr(machine, "here", lambda environ: Machine(cores=8, gpus=0))


def _job(hosts: Sequence[Host], slots: Sequence[plan.Slot], verdict: Verdict) -> job.Job:
    names = [host.name for host in hosts]
    this = job.of_the_command_line(names, slots, ["true"], {}, job.JobOptions(), verdict)
    return dataclasses.replace(this, lasting=None)


def _direct(
    monkeypatch: pytest.MonkeyPatch, hosts: Sequence[Host]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """What this host's ranks are started with, and what the other host's agent gets."""
    orders: dict[str, Any] = {}
    here: dict[str, str] = {}

    def contact(given: Mapping[str, Any], *_: object) -> list[Any]:
        orders.update(given)
        return []

    def start_here(this: job.Job, shared: Mapping[str, str], *_: object) -> None:
        here.update(shared)
        raise _Enough

    monkeypatch.setattr(direct.ssh, "contact", contact)
    monkeypatch.setattr(direct, "_start_here", start_here)
    slots = plan.assign(hosts)
    with pytest.raises(_Enough):
        direct.supervise(_job(hosts, slots, Verdict({slot.rank: slot.host for slot in slots})))
    return here, orders[FAR].environment


def _elastic(
    monkeypatch: pytest.MonkeyPatch, hosts: Sequence[Host]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The same of an elastic job."""
    orders: list[Any] = []
    here: dict[str, str] = {}

    def reach(this: job.Job, order: Any, *_: object) -> Any:
        orders.append(order)

    def start_here(command: object, environment: Mapping[str, str], *_: object) -> None:
        here.update(environment)

    def driver(policy: Policy, around: Any, *_: object) -> None:
        around.start(0, {})
        raise _Enough

    monkeypatch.setattr(run.local, "start", start_here)
    monkeypatch.setattr(run, "_reach", reach)
    monkeypatch.setattr(run, "Driver", driver)
    processes = sum(host.slots for host in hosts)
    verdict = ElasticVerdict({})
    with pytest.raises(_Enough):
        options = ElasticOptions(Policy(processes, 1), hosts)
        run.supervise(_job(hosts, [], verdict), options, verdict)
    return here, orders[0].environment


@pytest.mark.parametrize("started", [_direct, _elastic])
def test_the_share_of_this_hosts_cores_stays_here(
    monkeypatch: pytest.MonkeyPatch, started: Any
) -> None:
    here, far = started(monkeypatch, [Host("localhost", 2), Host(FAR, 4)])
    assert here[THREADS] == "4" and THREADS not in far


@pytest.mark.parametrize("started", [_direct, _elastic])
def test_a_number_that_the_user_has_chosen_goes_to_all_hosts(
    monkeypatch: pytest.MonkeyPatch, started: Any
) -> None:
    monkeypatch.setenv(THREADS, "3")
    here, far = started(monkeypatch, [Host("localhost", 2), Host(FAR, 4)])
    assert here[THREADS] == far[THREADS] == "3"


def test_a_host_that_may_be_named_later_is_given_the_share_of_all_ranks() -> None:
    fixed = ElasticOptions(Policy(4, 1), [Host(FAR, 4)])
    assert run._ranks_here(fixed, [FAR]) == 0
    assert run._ranks_here(dataclasses.replace(fixed, hostfile="hosts"), [FAR]) == 4
    both = ElasticOptions(Policy(4, 1), [Host("localhost", 8), Host(FAR, 4)])
    assert run._ranks_here(both, [FAR]) == 4
