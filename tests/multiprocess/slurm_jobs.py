"""Commands in an allocation of the tests' Slurm."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from launched import Job, Launcher
from waiting import wait_until

PYTHON = sys.executable
HVDLITERUN = [PYTHON, "-m", "hvdlite.launch"]
# Three tasks: two on the first node, one on the second.
ALLOCATION = ["salloc", "--quiet", "-N2", "-n3"]


class Slurm(Launcher):
    """Starts commands under Slurm, as processes of a job of which nothing may remain."""

    def __init__(self, job: Job, variables: dict[str, str]) -> None:
        self.job = job
        self.variables = variables

    def start(self, *command: str, **extra: str) -> subprocess.Popen[bytes]:
        return self.job.spawn(command, subprocess.PIPE, **self.variables, **extra)

    def ask(self, *command: str) -> str:
        """What one of Slurm's programs prints."""
        done = self.end_well(*command)
        return done.stdout.decode()

    def allocated(self, *command: str) -> subprocess.CompletedProcess[bytes]:
        """`command` with two tasks on the first node and one on the second."""
        return self.run(*ALLOCATION, *command)

    def start_ready(self, script: str, *arguments: str) -> int:
        """hvdliterun with three ranks that have come to where they wait; its pid. The allocation
        lives on until leave(), or Slurm would end what it finds in it."""
        command = [*HVDLITERUN, *arguments, PYTHON, self.job.script(script)]
        self.process = self.start(
            *ALLOCATION,
            "bash",
            "-c",
            '"$@"; code=$?; touch over; until [ -e leave ]; do sleep 0.1; done; exit $code',
            "bash",
            *command,
        )
        self.job.wait_ready(3)
        (launcher,) = self.pids(*HVDLITERUN)
        return launcher

    def leave(self) -> tuple[bytes, bytes]:
        """Gives the allocation back; what was said in it."""
        (self.job.directory / "leave").touch()
        return self.process.communicate()

    def ranks(self) -> list[int]:
        """Those of a script that job.script() has written."""
        return self.pids(PYTHON, str(self.job.directory / "script.py"))

    def expect_no_ranks(self, seconds: float) -> None:
        """While the allocation is still there."""
        wait_until(lambda: not self.ranks(), seconds, lambda: "ranks remain")
        assert self.process.poll() is None

    def pids(self, *words: str) -> list[int]:
        """The processes of the job whose command line begins so."""
        wanted = [word.encode() for word in words]
        found = []
        for pid in self.job.pids():
            with contextlib.suppress(OSError):  # it has just ended
                if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[: len(wanted)] == wanted:
                    found.append(pid)
        return found
