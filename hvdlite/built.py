"""What Horovod's programs ask about the build. One binary serves all; what matters is what can be used here and now."""

from __future__ import annotations

from hvdlite import _core

__all__ = [
    "ccl_built",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rocm_built",
]


def gloo_built() -> bool:
    """True: hvdlite's own shared memory and TCP stand in for gloo."""
    return True


def gloo_enabled() -> bool:
    """True, see gloo_built()."""
    return True


def mpi_built() -> bool:
    """Whether MPI can be used: not yet."""
    return False


def mpi_enabled() -> bool:
    """Whether MPI is used: not yet."""
    return False


def mpi_threads_supported() -> bool:
    """ValueError: MPI is not used."""
    _core.rank()  # says so where hvd.init() is missing
    raise ValueError("Horovod MPI is not enabled; hvdlite communicates through shared memory and TCP by itself.")


def nccl_built() -> int:
    """NCCL's version code, or 0: not yet."""
    return 0


def ddl_built() -> bool:
    """False: IBM's DDL is no more."""
    return False


def ccl_built() -> bool:
    """False: oneCCL is not used."""
    return False


def cuda_built() -> bool:
    """Whether tensors of a GPU travel without a detour through host memory: not yet."""
    return False


def rocm_built() -> bool:
    """As cuda_built(), for AMD."""
    return False
