"""Jobs whose other hosts are behind real ssh."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sshd
from launched import MARK, READY, Job, Launcher
from network import Network

PYTHON = sys.executable


class FarJob(Launcher):
    def __init__(self, job: Job, hosts: sshd.SshHosts) -> None:
        self.job = job
        self.hosts = hosts

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[bytes]:
        return self.job.start(f"--ssh-args=-F {self.hosts.config}", *arguments, **extra)

    def start_four(self, hosts: str = "a:2,b:2", **extra: str) -> subprocess.Popen[bytes]:
        """Four ranks, each with a child; returns when all are there."""
        script = self.job.script("import subprocess; subprocess.Popen(['sleep', '600'])\n" + READY)
        process = self.start("-H", hosts, PYTHON, script, **extra)
        self.job.wait_ready(4)
        return process

    def pids(self, *words: str) -> list[int]:
        """The job's processes whose command line has all these words."""
        found = []
        for pid in self.job.pids():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if all(
                any(part == word or part.endswith(f"/{word}") for part in line) for word in words
            ):
                found.append(pid)
        return found


@contextmanager
def far_job(job: Job, network: Network, directory: Path) -> Iterator[FarJob]:
    """A launcher on the switch of the network, and the hosts a and b."""
    job.prefix = network.prefix(-1)
    with sshd.SshHosts(network, "ab", directory, f"{MARK}={job.mark}") as hosts:
        yield FarJob(job, hosts)
