"""What another launcher is asked to start, and the answer: its command line. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hvdlite.launch.hosts import Host

# What belongs to one machine, one login or one rank, and what launchers set for each rank themselves.
_STAYS = re.compile(
    r"BASH_FUNC_.*|OLDPWD|PWD|HOSTNAME|SHLVL|_|.*CUDA_VISIBLE_DEVICES|SSH_.*|XDG_(RUNTIME_DIR|SESSION_.*)"
    r"|DBUS_SESSION_BUS_ADDRESS|DISPLAY|XAUTHORITY|TMUX.*|STY|TTY"
    r"|(HVDLITE|HOROVOD)_(RANK|SIZE|LOCAL_RANK|LOCAL_SIZE|CROSS_RANK|CROSS_SIZE|HOSTNAME)|HVDLITE_SECRET_FD"
    r"|(OMPI|PMIX|PRTE|OPAL|HYDRA|I_MPI|PMI|SLURM|SLURMD)_.*|MPI_LOCALRANKID|MPI_LOCALNRANKS"
)


@dataclass(frozen=True)
class Request:
    """One job. `hosts` may be empty where a batch system has chosen them; `forward` names variables, whose values travel in
    the environment and never in a command line, where everybody could read them."""

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
    grace_seconds: float = 5.0

    @property
    def ssh_arguments(self) -> str:
        """For ssh, as one text; empty when nothing was asked for."""
        port = ["-p", str(self.ssh_port)] if self.ssh_port else []
        identity = ["-i", self.ssh_identity_file] if self.ssh_identity_file else []
        return " ".join(port + identity)

    @property
    def host_list(self) -> str:
        """`a:2,b:2`, as Open MPI and Hydra read it."""
        return ",".join(f"{host.name}:{host.slots}" for host in self.hosts)


@dataclass(frozen=True)
class Launch:
    """A launcher's command line, and what its environment needs besides."""

    argv: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def forwardable(names: Iterable[str]) -> list[str]:
    """Of these variables, those that go along to the ranks on other hosts."""
    return sorted(name for name in names if re.fullmatch(r"[A-Za-z_]\w*", name) and not _STAYS.fullmatch(name))
