"""Elastic jobs on several hosts: hosts vanish, are named, are removed, and come back.

The hosts are pretended: an `ssh` of the test starts each agent here, in a session of its own. The
numbers are rows of the design's table of faults; where `race` stands before one, of its races.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from elastic_hosts import QUICK, HostsJob
from launched import Job, ended, last_line
from waiting import wait_until


@pytest.fixture
def hosts(job: Job) -> HostsJob:
    return HostsJob(job)


def test_a_host_whose_agent_is_killed_is_lost_and_comes_back(hosts: HostsJob) -> None:  # 11
    process = hosts.start("-np", "4", "--min-np", "2", *QUICK, "-H", "localhost:2,other:2")
    hosts.wait_for_size(4, 1, 2, 3, 4)
    os.kill(hosts.pids("other", "hvdlite.launch.agent")[0], signal.SIGKILL)
    hosts.wait_for_size(2, 1, 2)
    hosts.wait_for_size(4, 1, 2, 5, 6)
    assert [hosts.reports(each)[-1][1:5] for each in (1, 2, 5, 6)] == [
        [0, 4, 0, 2],
        [1, 4, 1, 2],
        [2, 4, 0, 2],
        [3, 4, 1, 2],
    ]
    err = hosts.finish(process, 4)
    assert "host other was lost" in err


@pytest.mark.parametrize("what", ["hvdlite.launch.agent", ""], ids=["agent", "host"])
def test_a_host_whose_agent_is_stopped_is_lost_and_comes_back(hosts: HostsJob, what: str) -> None:
    flags = ("-np", "4", "--min-np", "2", *QUICK, "-H", "localhost:2,other:2")
    process = hosts.start(*flags, HVDLITE_HEARTBEAT_SECONDS="1")
    hosts.wait_for_size(4, 1, 2, 3, 4)
    there = [hosts.member(3), hosts.member(4)]
    stopped = hosts.pids("other", *filter(None, [what]))
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    hosts.wait_for_size(2, 1, 2)
    hosts.wait_for_size(4, 1, 2, 5, 6)
    if what:
        hosts.wait_until_dead(there)  # no agent has told them
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    hosts.wait_until_dead(stopped)
    assert "host other was lost: its agent has not answered" in hosts.finish(process, 4)


def test_the_rank_of_a_far_guardian_that_is_killed_is_lost_alone(hosts: HostsJob) -> None:  # 11
    process = hosts.start("-np", "4", "--min-np", "2", *QUICK, "-H", "localhost:2,other:2")
    hosts.wait_for_size(4, 1, 2, 3, 4)
    stat = Path(f"/proc/{hosts.member(3)}/stat").read_text()
    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    hosts.wait_for_size(4, 1, 2, 4, 5)
    hosts.finish(process, 4)
    assert [report[2] for report in hosts.reports(4)] == [4, 3, 4]


def test_a_host_that_cannot_be_reached_is_done_without(hosts: HostsJob) -> None:
    down = hosts.job.directory / "down.other"
    down.touch()
    process = hosts.start("-np", "4", "--min-np", "2", *QUICK, "-H", "localhost:2,other:2")
    hosts.wait_for_size(2, 1, 2)
    down.unlink()
    wait_until(lambda: hosts.sizes()[-2:] == [4, 4])
    err = hosts.finish(process, 4)
    assert err.count("host other: no ssh server listens there") == 1, "it is told once"


@pytest.mark.parametrize("cooldown", [(), QUICK], ids=["for-good", "for-a-while"])
def test_a_host_is_out_of_use_with_its_first_failed_rank(
    hosts: HostsJob, cooldown: tuple[str, ...]
) -> None:  # 28
    process = hosts.start(
        *("-np", "4", "--min-np", "2", "--failure-unit", "host", *cooldown),
        *("-H", "localhost:2,other:2"),
    )
    hosts.wait_for_size(4, 1, 2, 3, 4)
    os.kill(hosts.member(3), signal.SIGKILL)
    hosts.wait_for_size(2, 1, 2)
    wait_until(lambda: not hosts.pids("other", "guardian.py") or cooldown)
    if cooldown:
        hosts.wait_for_size(4, 1, 2, 5, 6)
    hosts.finish(process, 4 if cooldown else 2)
    assert hosts.started() == (6 if cooldown else 4)


def test_a_host_that_takes_long_to_be_reached_holds_up_nothing(hosts: HostsJob) -> None:
    hosts.say("localhost:2")
    process = hosts.start("-np", "2", "--min-np", "1", *QUICK, *_script(hosts))
    hosts.wait_for_size(2, 1, 2)
    slow = hosts.job.directory / "slow.other"
    slow.touch()
    hosts.say("localhost:2,other:2")
    hosts.job.wait_for_files(["waits.other"])
    os.kill(hosts.member(2), signal.SIGKILL)
    hosts.wait_for_size(2, 1, 5)  # 3 and 4 wait for their host
    slow.unlink()
    hosts.wait_for_size(4, 1, 3, 4, 5)
    hosts.finish(process, 4)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_launcher_that_is_ended_leaves_nothing_on_any_host(hosts: HostsJob, number: int) -> None:
    (hosts.job.directory / "slow.slow").touch()
    hosts.say("localhost:1,other:1")
    process = hosts.start("-np", "2", "--min-np", "1", *_script(hosts))
    hosts.wait_for_size(2, 1, 2)
    hosts.say("localhost:1,other:1,slow:1")
    hosts.job.wait_for_files(["waits.slow"])
    process.send_signal(number)
    process.communicate()
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    (hosts.job.directory / "slow.slow").unlink()  # no ssh of the test waits any more
    assert hosts.job.wait_until_gone(10) == []


def test_a_job_whose_hosts_cannot_be_reached_ends_with_the_reason(hosts: HostsJob) -> None:
    (hosts.job.directory / "down.other").touch()
    process = hosts.start("-np", "3", "--min-np", "3", "-H", "localhost:2,other:2")
    _, err = ended(process, 1)
    assert last_line(err).startswith("hvdliterun: host other: no ssh server listens there"), err
    assert hosts.job.wait_until_gone(3) == []


def _script(hosts: HostsJob) -> tuple[str, str]:
    return "--host-discovery-script", f"cat {hosts.job.directory / 'hosts'}"


@pytest.mark.costly
def test_the_script_adds_and_removes_hosts(hosts: HostsJob) -> None:  # 15, 16, 18
    hosts.say("localhost:2")
    process = hosts.start("-np", "2", "--min-np", "1", *QUICK, *_script(hosts))
    hosts.wait_for_size(2, 1, 2)
    hosts.say("localhost:2,other:2")
    hosts.wait_for_size(4, 1, 2, 3, 4)
    hosts.say("localhost:2,other:1")
    hosts.wait_for_size(3, 1, 2, 3)
    hosts.say("localhost:1")
    hosts.wait_for_size(1, 1)
    wait_until(lambda: not hosts.pids("other"), said=lambda: "its agent has not ended")
    hosts.say("localhost:1,other:1,third:2")
    hosts.wait_for_size(4, 1, 5, 6, 7)
    assert [report[2] for report in hosts.reports(1)] == [2, 4, 3, 1, 4]
    hosts.finish(process, 4, planned=True)


def test_a_hostfile_is_read_again_when_it_has_changed(hosts: HostsJob) -> None:
    hosts.say("localhost slots=2")
    process = hosts.start("-np", "2", "--min-np", "1", *QUICK, "--hostfile", "hosts")
    hosts.wait_for_size(2, 1, 2)
    hosts.say("localhost slots=2,other  # a second one")
    hosts.wait_for_size(3, 1, 2, 3)
    hosts.say("this is no host")
    line = hosts.wait_for_line(process, "is not a host")
    assert line.endswith("Its last hosts stay."), line
    hosts.say("other")
    hosts.wait_for_size(1, 3)
    hosts.finish(process, 1)


# From its beginning it names `other` every second time, and after 50 times always.
FLAPPING = """
echo localhost:2
[ -e flaps ] || { echo other:2; exit; }
n=$(cat turns || echo 0)
echo $((n + 1)) > turns.new; mv turns.new turns
[ $n -lt 100 -a $((n % 2)) = 0 ] || echo other:2
"""


@pytest.mark.costly
def test_a_host_that_flaps_changes_nothing(hosts: HostsJob) -> None:  # 17, race 11
    (hosts.job.directory / "flapping").write_text(FLAPPING)
    hosts.job.launcher = [
        hosts.job.script(
            "import sys\nfrom hvdlite.launch import cli\n"
            "from hvdlite.launch.elastic import host_discovery\n"
            "host_discovery.DISCOVER_HOSTS_FREQUENCY_SECS = 0.01\nsys.exit(cli.main())\n",
            "launcher.py",
        )
    ]
    process = hosts.start("-np", "4", "--min-np", "1", "--host-discovery-script", "sh flapping")
    hosts.wait_for_size(4, 1, 2, 3, 4)
    turns = hosts.job.directory / "turns"
    turns.write_text("0\n")
    (hosts.job.directory / "flaps").touch()
    wait_until(lambda: int(turns.read_text()) > 110, 40, turns.read_text)
    err = hosts.finish(process, 4, planned=True)
    assert [len(hosts.reports(each)) for each in (1, 2, 3, 4)] == [1, 1, 1, 1], err


def test_sigterm_to_a_hosts_agent_is_its_ranks_notice(hosts: HostsJob) -> None:  # 24
    process = hosts.start("-np", "4", "--min-np", "1", *QUICK, "-H", "localhost:2,other:2")
    hosts.wait_for_size(4, 1, 2, 3, 4)
    os.kill(hosts.pids("other", "hvdlite.launch.agent")[0], signal.SIGTERM)
    hosts.wait_for_size(2, 1, 2)
    wait_until(lambda: not hosts.pids("other"), said=lambda: "its agent has not ended")
    err = hosts.finish(process, 2, planned=True)
    assert "lost" not in err and hosts.started() == 4, err


# Member 2 dies when its job is told for the first time that others leave.
KILLS = """
import os, signal, sys
from hvdlite.launch import cli
from hvdlite.launch.elastic import driver, events
do = driver.Driver._do
def kills(self, action):
    do(self, action)
    if isinstance(action, events.Tell) and action.notice.leaving and not action.notice.broken:
        os.kill(int(open("pid.2").read()), signal.SIGKILL)
driver.Driver._do = kills
sys.exit(cli.main())
"""


def test_a_death_while_a_host_leaves(hosts: HostsJob) -> None:  # race 9
    hosts.say("localhost:2,other:2")
    hosts.job.launcher = [hosts.job.script(KILLS, "launcher.py")]
    process = hosts.start("-np", "4", "--min-np", "1", *QUICK, *_script(hosts))
    hosts.wait_for_size(4, 1, 2, 3, 4)
    hosts.say("localhost:2")
    hosts.wait_for_size(2, 1, 5)
    hosts.finish(process, 2)
    assert len(hosts.reports(1)) <= 4 and hosts.started() == 5, hosts.reports(1)


def test_sigterm_to_all_processes_of_a_host(hosts: HostsJob) -> None:  # race 15
    process = hosts.start("-np", "4", "--min-np", "1", *QUICK, "-H", "localhost:2,other:2")
    hosts.wait_for_size(4, 1, 2, 3, 4)
    agent = hosts.pids("other", "hvdlite.launch.agent")[0]
    for pid in (hosts.member(3), agent, hosts.member(4)):
        os.kill(pid, signal.SIGTERM)
    hosts.wait_for_size(2, 1, 2)
    wait_until(lambda: not hosts.pids("other"), said=lambda: "its agent has not ended")
    hosts.finish(process, 2)
    assert hosts.started() == 4
