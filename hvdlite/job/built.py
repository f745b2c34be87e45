"""Horovod's questions about the build. hvdlite has one binary, so the answers say what can be used
here and now."""

from __future__ import annotations

import sys

from hvdlite import _core
from hvdlite.job import basics, gpu_libraries

__all__ = [
    "ccl_built", "cuda_built", "ddl_built", "gloo_built", "gloo_enabled", "mpi_built",
    "mpi_enabled", "mpi_threads_supported", "nccl_built", "rocm_built",
]  # fmt: skip


def gloo_built() -> bool:
    """True: hvdlite's own shared memory and TCP take the place of gloo."""
    return True


def gloo_enabled() -> bool:
    """True, see gloo_built()."""
    return True


def mpi_built() -> bool:
    """Whether there is an MPI that could be used: mpi4py with a library that it can load.
    Initialises nothing."""
    if "mpi4py.MPI" in sys.modules:
        return True
    from hvdlite.job.bootstrap import mpi_library

    try:
        mpi_library.find()
    except ConnectionError:
        return False
    return True


def mpi_enabled() -> bool:
    """Whether MPI is part of this job: its tensors go over MPI, or mpirun has started it and its
    ranks have met through MPI. Tensors within a host are in shared memory in either case."""
    return _core.uses_mpi() or basics.met_over_mpi()


def mpi_threads_supported() -> bool:
    """Whether the program may call MPI while operations are in flight. Raises ValueError if the job
    does not use MPI."""
    _core.rank()  # raises an error if hvd.init() is missing
    if not mpi_enabled():
        raise ValueError(
            "this job does not use MPI: tensors travel through shared memory and TCP. "
            "HVDLITE_CPU_OPERATIONS=mpi makes it use MPI."
        )
    mpi = sys.modules["mpi4py.MPI"]
    return bool(mpi.Query_thread() == mpi.THREAD_MULTIPLE)


def nccl_built() -> int:
    """Returns the version code of the NCCL that this process would use (22803 for 2.28.3), or 0.
    Loads NCCL, but touches no GPU."""
    try:
        return gpu_libraries.find_nccl()
    except NotImplementedError:
        return 0


def ddl_built() -> bool:
    """False: IBM's DDL no longer exists."""
    return False


def ccl_built() -> bool:
    """False: hvdlite does not use oneCCL."""
    return False


def cuda_built() -> bool:
    """Whether this build has kernels for GPUs, like a Horovod compiled with CUDA. Initialises
    nothing."""
    return bool(_core.gpu_kernels())


def rocm_built() -> bool:
    """False: hvdlite does not use GPUs of AMD."""
    return False
