"""Elastic jobs on hosts that are network namespaces, with a real sshd each: cables are pulled.

The numbers are rows of the design's table of faults.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import sshd
from elastic_hosts import QUICK, HostsJob
from launched import MARK, Job
from network import Network, why_not

_WHY_NOT = why_not() or sshd.why_not()
pytestmark = [
    pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT)),
    pytest.mark.watchdog(120),
]
# A silent rank, link or host counts as lost after this time.
SILENCE = "3"


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network(2, tag="e") as network:
        yield network


@pytest.fixture
def hosts(
    job: Job, network: Network, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HostsJob]:
    """A launcher on the switch, and the hosts a and b."""
    job.prefix = network.prefix(-1)
    folder = tmp_path_factory.mktemp("ssh")
    with sshd.SshHosts(network, "ab", folder, f"{MARK}={job.mark}") as there:
        yield HostsJob(job, there.config)


def test_a_host_whose_ssh_is_killed_is_lost_and_comes_back(hosts: HostsJob) -> None:  # 11
    process = hosts.start("-np", "4", "--min-np", "2", *QUICK, "-H", "a:2,b:2")
    hosts.wait_for_size(4, 1, 2, 3, 4)
    os.kill(hosts.pids("", "ssh", "-T", "b")[0], signal.SIGKILL)
    hosts.wait_for_size(2, 1, 2)
    hosts.wait_for_size(4, 1, 2, 5, 6)
    assert "host b was lost: ssh was killed by signal 9" in hosts.finish(process, 4)


@pytest.mark.costly
@pytest.mark.parametrize("near", ["a", "localhost"])
def test_a_host_whose_cable_is_pulled_is_lost_and_comes_back(
    hosts: HostsJob, network: Network, near: str
) -> None:  # 13
    process = hosts.start(
        *"-np 4 --min-np 2".split(),
        *QUICK,
        "-H",
        f"{near}:2,b:2",
        HVDLITE_HEARTBEAT_SECONDS=SILENCE,
    )
    hosts.wait_for_size(4, 1, 2, 3, 4)
    there = [hosts.member(3), hosts.member(4)]
    network.pull_the_cable(1)
    try:
        hosts.wait_for_size(2, 1, 2)
        hosts.wait_until_dead(there)  # nothing told the agent; it has noticed by itself
    finally:
        network.plug_the_cable_in(1)
    hosts.wait_for_size(4, 1, 2)
    hosts.finish(process, 4)


def test_of_two_hosts_that_do_not_reach_each_other_the_smaller_one_is_put_out(
    hosts: HostsJob, network: Network
) -> None:  # 14
    cooldown = ("--blacklist-cooldown-range", "100", "100")
    # The job goes on long before the start timeout.
    flags = ("-np", "3", "--min-np", "1", "--start-timeout", "600", *cooldown, "-H", "b:1,a:2")
    process = hosts.start(*flags, HVDLITE_HEARTBEAT_SECONDS=SILENCE)
    hosts.wait_for_size(3, 1, 2, 3)
    network.part(0, 1)
    try:
        hosts.wait_for_size(2, 2, 3)
        err = hosts.finish(process, 2)
    finally:
        network.join(0, 1)
    assert "host b is put out of the job: the network between it and another host" in err
    assert [report[2] for report in hosts.reports(2)] == [3, 2], "once more together, in vain"
