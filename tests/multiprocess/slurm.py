"""A real Slurm for tests: one controller and two nodes, all of them on this machine, from Debian's
packages.

    munged        proves who is who; a socket and a key of its own
    slurmctld     the controller
    slurmd -N ..  one per node, n1 and n2, each on its own port; in its mount namespace /etc/hosts
                  knows both names

All files lie in one directory, all ports are free ones, and nothing outlives the context manager.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from machine import within
from waiting import wait_until

PROGRAMS = "munged slurmctld slurmd srun sbatch salloc scancel sinfo squeue".split()
_START_SECONDS = 30.0

_CONFIGURATION = """\
ClusterName=test
SlurmUser=root
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.%n.pid
SlurmdSpoolDir={directory}/spool.%n
StateSaveLocation={directory}/state
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.%n.log
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={directory}/munge.sock
MpiDefault=none
# No control groups: they belong to the machine.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
# More processors than the machine has are believed.
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=20
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4
PartitionName=test Nodes=n[1-2] Default=YES MaxTime=10 State=UP
"""


def why_not() -> str | None:
    """Why Slurm cannot be started here; None when it can."""
    missing = [program for program in PROGRAMS if _path(program) is None]
    if missing:
        return (
            f"no {', '.join(missing)} (Debian: apt-get install slurmctld slurmd slurm-client munge)"
        )
    if os.geteuid() != 0:
        return "slurmd starts jobs for others, which needs root"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        return "no mount namespaces are allowed here, in which /etc/hosts could know the nodes"
    return None


def _path(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    """Not of those that the system gives to whoever asks for any: one would be somebody's before a
    daemon has it."""
    ports: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(ports) < count:
            port = random.randrange(10_000, 20_000)
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
    return ports


@contextlib.contextmanager
def cluster(directory: Path) -> Iterator[dict[str, str]]:
    """Yields the variables with which Slurm's programs find it. AssertionError, with logs: it does
    not start."""
    processes: list[subprocess.Popen[bytes]] = []
    variables = {"SLURM_CONF": str(directory / "slurm.conf")}
    environment = {**os.environ, **variables}
    text = _CONFIGURATION.format(directory=directory, ports=_free_ports(3))
    (directory / "slurm.conf").write_text(text)
    (directory / "state").mkdir()
    hosts = directory / "hosts"
    hosts.write_text(Path("/etc/hosts").read_text() + "\n127.0.0.1 n1 n2\n")
    key = directory / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))

    # Execs, so that the processes' numbers are those of Slurm's programs.
    knowing_the_nodes = [
        *"unshare --mount sh -c".split(),
        f"mount --bind '{hosts}' /etc/hosts && exec \"$@\"",
        "sh",
    ]

    def start(program: str, *arguments: str) -> None:
        path = _path(program)
        assert path is not None
        with open(directory / f"{program}.out", "ab") as out:
            process = subprocess.Popen(
                [*knowing_the_nodes, path, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        processes.append(process)

    try:
        files = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munge.pid"}
        files |= {"log-file": "munge.log", "seed-file": "munge.seed"}
        start(
            "munged",
            "--foreground",
            "--force",
            *(f"--{name}={directory / file}" for name, file in files.items()),
        )
        wait_until((directory / "munge.sock").exists, _START_SECONDS, lambda: _logs(directory))
        start("slurmctld", "-D")
        for node in ("n1", "n2"):
            start("slurmd", "-D", "-N", node)
        wait_until(
            lambda: _ask(environment, "sinfo", "-h", "-o", "%T").split() == ["idle"],
            _START_SECONDS,
            lambda: _logs(directory),
        )
        yield variables
        _ask(environment, "scancel", "--user=root")
        with contextlib.suppress(AssertionError):
            wait_until(lambda: _ask(environment, "squeue", "-h") == "", 10)
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ask(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=within(20)
    )
    return done.stdout


def _logs(directory: Path) -> str:
    return "\n".join(
        f"{path.name}: {path.read_text()[-800:]}" for path in sorted(directory.glob("*.out"))
    )
