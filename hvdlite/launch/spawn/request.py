"""The request to another launcher, and the result: its command line. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hvdlite.launch.hosts import Host
from hvdlite.launch.plan import travelling

# Variables that launchers set for each rank themselves.
_OURS = re.compile(
    r"(HVDLITE|HOROVOD)_(RANK|SIZE|LOCAL_RANK|LOCAL_SIZE|CROSS_RANK|CROSS_SIZE|HOSTNAME|HOST_ID)"
)
_THEIRS = re.compile(
    r"(OMPI|PMIX|PRTE|OPAL|HYDRA|I_MPI|PMI|SLURM|SLURMD)_.*|MPI_LOCALRANKID|MPI_LOCALNRANKS|SHLVL"
)


@dataclass(frozen=True)
class Request:
    """One job. `hosts` may be empty if a batch system has chosen them. `forward` names variables.
    Their values travel in the environment and never in a command line, where every user could read
    them."""

    hosts: Sequence[Host]
    processes: int
    command: Sequence[str]
    forward: Sequence[str] = ()
    interfaces: Sequence[str] = ()
    ssh_port: int | None = None
    ssh_identity_file: str | None = None
    tcp_only: bool = False
    extra_arguments: Sequence[str] = ()
    binding_arguments: Sequence[str] = ()
    as_root: bool = False

    @property
    def ssh_arguments(self) -> str:
        """Returns the arguments for ssh as one text; empty if there are none."""
        port = ["-p", str(self.ssh_port)] if self.ssh_port else []
        identity = ["-i", self.ssh_identity_file] if self.ssh_identity_file else []
        return " ".join(port + identity)

    @property
    def host_list(self) -> str:
        """Returns `a:2,b:2`, as Open MPI and Hydra read it."""
        return ",".join(f"{host.name}:{host.slots}" for host in self.hosts)


@dataclass(frozen=True)
class Launch:
    """A launcher's command line, with the variables that its environment needs."""

    argv: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def forwardable(environment: Mapping[str, str]) -> list[str]:
    """Returns the names of variables that go to the ranks on other hosts."""
    names = travelling(without_rank(environment))
    return sorted(
        name
        for name in names
        if re.fullmatch(r"[A-Za-z_]\w*", name) and not _THEIRS.fullmatch(name)
    )


def without_rank(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment for the ranks of a job that a rank of another job starts: they must
    not take its numbers for theirs."""
    return {name: value for name, value in environment.items() if not _OURS.fullmatch(name)}
