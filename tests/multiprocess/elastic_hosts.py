"""Elastic jobs on several hosts, which are pretended or real, and what their members report.

The program adds 1 to its weights in each step, so weights and steps agree whatever has happened.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from launched import Job, ended
from waiting import wait_until

PYTHON = sys.executable
QUICK = ("--blacklist-cooldown-range", "0.1", "0.2")

SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
while [ -e "slow.$2" ]; do echo > "waits.$2"; sleep 0.05; done  # poll
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
open(f"pid.{MEMBER}", "w").write(str(os.getpid()))
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
    """A job whose hosts, other than localhost, are pretended, or known to ssh by `config`."""

    def __init__(self, job: Job, config: Path | None = None) -> None:
        self.job = job
        self.flags = [] if config is None else [f"--ssh-args=-F {config}"]
        self.program = job.script(PROGRAM)
        if config is None:
            self._pretend()

    def _pretend(self) -> None:
        program = self.job.directory / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(SSH)
        program.chmod(0o755)

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[bytes]:
        path = f"{self.job.directory / 'bin'}:{os.environ['PATH']}"
        return self.job.start(*self.flags, *arguments, PYTHON, self.program, PATH=path, **extra)

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
        return int((self.job.directory / f"pid.{number}").read_text())

    def wait_until_dead(self, pids: Sequence[int]) -> None:
        wait_until(lambda: not set(pids) & set(self.job.pids()))

    def pids(self, host: str, *words: str) -> list[int]:
        """The processes of a pretended host whose command line has all these words. Empty: any."""
        found = []
        for pid in self.job.pids():
            line, environ = _read(pid, "cmdline"), _read(pid, "environ")
            if (not host or f"PRETENDED_HOST={host}" in environ) and all(
                any(part.endswith(word) for part in line) for word in words
            ):
                found.append(pid)
        return found

    def finish(self, process: subprocess.Popen[bytes], ranks: int, planned: bool = False) -> str:
        """The job ends well with so many ranks, and nothing is left. `planned`: no step was done
        again."""
        (self.job.directory / "enough").touch()
        out, err = ended(process)
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
        self.job.name_hosts(*hosts.split(","))


def _read(pid: int, what: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
