"""Elastic jobs on several hosts: hosts vanish, are named, are removed, and come back.

The hosts are pretended: an `ssh` of the test starts each agent here, in a session of its own. The
numbers are rows of the design's table of faults; where `race` stands before one, of its races.
The program adds 1 to its weights in each step, so weights and steps agree whatever has happened.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launched import Job, last_line
from waiting import wait_until

PYTHON = sys.executable
QUICK = ("--blacklist-cooldown-range", "0.1", "0.2")

SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
[ ! -e "down.$2" ] || { echo "ssh: connect to host $2: Connection refused" >&2; exit 255; }
setsid -w env PRETENDED_HOST="$2" sh -c "$3"
"""

PROGRAM = """
import os, time
import numpy as np
import hvdlite as hvd

MEMBER = os.environ["HVDLITE_MEMBER"]
def report(text):
    with open(f"report.{MEMBER}", "a") as file: file.write(text + "\\n")
hvd.init()
state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0, weights=np.zeros(3))

steps = 0  # that this member has made, with those that are done again

@hvd.elastic.run
def train(state):
    global steps
    place = f"{hvd.rank()} {hvd.size()} {hvd.local_rank()} {hvd.local_size()}"
    report(f"{hvd.elastic.generation()} {place} {state.step}")
    enough = False
    while not enough:
        state.weights = state.weights + hvd.allreduce(np.ones(3), name="gradient")
        enough = bool(hvd.allreduce(np.array(os.path.exists("enough")), op=hvd.Max, name="enough"))
        state.step += 1
        steps += 1
        state.commit()
        time.sleep(0.002)  # poll
    assert (state.weights == state.step).all(), (state.weights, state.step)
    return state.step

print("done at", train(state), "after", steps, flush=True)
"""


class HostsJob:
    """A job whose hosts, other than localhost, are pretended."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.program = job.script(PROGRAM)
        program = job.directory / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(SSH)
        program.chmod(0o755)

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[bytes]:
        path = f"{self.job.directory / 'bin'}:{os.environ['PATH']}"
        return self.job.start(*arguments, PYTHON, self.program, PATH=path, **extra)

    def reports(self, member: int) -> list[list[int]]:
        """Of each call of the function: generation, rank, size, local rank, local size, step."""
        path = self.job.directory / f"report.{member}"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [[int(word) for word in line.split()] for line in lines]

    def sizes(self) -> list[int]:
        """By member, the sizes that the members have seen last."""
        members = sorted(int(path.suffix[1:]) for path in self.job.directory.glob("report.*"))
        return [self.reports(member)[-1][2] for member in members if self.reports(member)]

    def wait_for_size(self, size: int, *members: int) -> None:
        """Until these members train, and are so many."""
        wait_until(
            lambda: all(self.reports(each)[-1:] and self.reports(each)[-1][2] == size
                        for each in members),
            said=lambda: {each: self.reports(each) for each in members},
        )  # fmt: skip

    def started(self) -> int:
        """How many members have trained."""
        return len(list(self.job.directory.glob("report.*")))

    def member(self, number: int) -> int:
        """Its process."""
        [pid] = [
            pid for pid in self.job.pids() if f"HVDLITE_MEMBER={number}" in _read(pid, "environ")
        ]
        return pid

    def pids(self, host: str, *words: str) -> list[int]:
        """The processes of a pretended host whose command line has all these words."""
        found = []
        for pid in self.job.pids():
            line, environ = _read(pid, "cmdline"), _read(pid, "environ")
            if f"PRETENDED_HOST={host}" in environ and all(
                any(part.endswith(word) for part in line) for word in words
            ):
                found.append(pid)
        return found

    def finish(self, process: subprocess.Popen[bytes], ranks: int, planned: bool = False) -> str:
        """The job ends well with so many ranks, and nothing is left. `planned`: no step was done
        again."""
        (self.job.directory / "enough").touch()
        out, err = process.communicate()
        assert process.returncode == 0, err.decode()
        ends = re.findall(r"done at (\d+) after (\d+)", out.decode())
        assert len(ends) == ranks and len({step for step, _ in ends}) == 1, (ends, err.decode())
        assert not planned or (ends[0][0], ends[0][0]) in ends, "a step was done again"
        assert self.job.wait_until_gone(3) == []
        return err.decode()

    @staticmethod
    def wait_for_line(process: subprocess.Popen[bytes], words: str) -> str:
        """The launcher's line with these words."""
        assert process.stderr is not None
        while words not in (line := process.stderr.readline().decode()):
            assert line, f"the job has ended without {words!r}"
        return line.rstrip("\n")

    def say(self, hosts: str) -> None:
        """What the script names from now on."""
        new = self.job.directory / "hosts.new"
        new.write_text(hosts.replace(",", "\n") + "\n")
        new.replace(self.job.directory / "hosts")


def _read(pid: int, what: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


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


def test_a_job_whose_hosts_cannot_be_reached_ends_with_the_reason(hosts: HostsJob) -> None:
    (hosts.job.directory / "down.other").touch()
    process = hosts.start("-np", "3", "--min-np", "3", "-H", "localhost:2,other:2")
    _, err = process.communicate()
    assert process.returncode == 1
    assert last_line(err).startswith("hvdliterun: host other: no ssh server listens there"), err
    assert hosts.job.wait_until_gone(3) == []


def _script(hosts: HostsJob) -> tuple[str, str]:
    return "--host-discovery-script", f"cat {hosts.job.directory / 'hosts'}"


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


def test_a_host_that_flaps_changes_nothing(hosts: HostsJob) -> None:  # 17, race 11
    (hosts.job.directory / "flapping").write_text(FLAPPING)
    hosts.job.launcher = [
        hosts.job.script(
            "import sys\nfrom hvdlite.launch import cli\nfrom hvdlite.launch.elastic import scout\n"
            "scout.PERIOD_SECONDS = 0.01\nsys.exit(cli.main())\n",
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
