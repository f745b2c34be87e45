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
from launched import Job
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

@hvd.elastic.run
def train(state):
    place = f"{hvd.rank()} {hvd.size()} {hvd.local_rank()} {hvd.local_size()}"
    report(f"{hvd.elastic.generation()} {place} {state.step}")
    enough = False
    while not enough:
        state.weights = state.weights + hvd.allreduce(np.ones(3), name="gradient")
        enough = bool(hvd.allreduce(np.array(os.path.exists("enough")), op=hvd.Max, name="enough"))
        state.step += 1
        state.commit()
        time.sleep(0.002)  # poll
    assert (state.weights == state.step).all(), (state.weights, state.step)
    return state.step

print("done at", train(state), flush=True)
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

    def wait_for_size(self, size: int, *members: int) -> None:
        """Until these members train, and are so many."""
        wait_until(
            lambda: all(self.reports(each)[-1:] and self.reports(each)[-1][2] == size
                        for each in members),
            said=lambda: {each: self.reports(each) for each in members},
        )  # fmt: skip

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

    def finish(self, process: subprocess.Popen[bytes], ranks: int) -> str:
        """The job ends well with so many ranks, and nothing is left."""
        (self.job.directory / "enough").touch()
        out, err = process.communicate()
        assert process.returncode == 0, err.decode()
        steps = re.findall(r"done at (\d+)", out.decode())
        assert len(steps) == ranks and len(set(steps)) == 1, (steps, err.decode())
        assert self.job.wait_until_gone(3) == []
        return err.decode()

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


@pytest.mark.parametrize("victim", [("hvdlite.launch.agent",)], ids=["agent"])
def test_a_host_whose_agent_is_killed_is_lost_and_comes_back(
    hosts: HostsJob, victim: tuple[str, ...]
) -> None:  # 11
    process = hosts.start("-np", "4", "--min-np", "2", *QUICK, "-H", "localhost:2,other:2")
    hosts.wait_for_size(4, 1, 2, 3, 4)
    pids = hosts.pids("other", *victim) or hosts.ssh_pids("other")
    os.kill(pids[0], signal.SIGKILL)
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
