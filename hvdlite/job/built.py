"""What Horovod's programs ask about the build. One binary serves all; what matters is what can be used here and now."""

from __future__ import annotations

import sys

from hvdlite import _core
from hvdlite.job import basics, gpu_libraries

__all__ = [
    "ccl_built", "cuda_built", "ddl_built", "gloo_built", "gloo_enabled", "mpi_built",
    "mpi_enabled", "mpi_threads_supported", "nccl_built", "rocm_built",
]  # fmt: skip


def gloo_built() -> bool:
    """True: hvdlite's own shared memory and TCP stand in for gloo."""
    return True


def gloo_enabled() -> bool:
    """True, see gloo_built()."""
    return True


def mpi_built() -> bool:
    """Whether there is an MPI here that could be used: mpi4py with a library that it can load. Nothing is initialised."""
    if "mpi4py.MPI" in sys.modules:
        return True
    from hvdlite.bootstrap import mpi_library

    try:
        mpi_library.find()
    except ConnectionError:
        return False
    return True


def mpi_enabled() -> bool:
    """Whether MPI is part of this job: its tensors travel over it, or an mpirun has started it and its ranks have met through MPI. Within
    a host tensors are in shared memory all the same."""
    return _core.uses_mpi() or basics.met_over_mpi()


def mpi_threads_supported() -> bool:
    """Whether the program may call MPI while operations are under way. ValueError: MPI is not used."""
    _core.rank()  # says so where hvd.init() is missing
    if not mpi_enabled():
        raise ValueError(
            "this job does not use MPI: tensors travel through shared memory and TCP. "
            "HVDLITE_CPU_OPERATIONS=mpi makes it use MPI."
        )
    mpi = sys.modules["mpi4py.MPI"]
    return bool(mpi.Query_thread() == mpi.THREAD_MULTIPLE)


def nccl_built() -> int:
    """The version code of the NCCL that this process would take (22803 for 2.28.3), or 0. No GPU is asked for; NCCL is loaded."""
    try:
        return gpu_libraries.find_nccl()
    except NotImplementedError:
        return 0


def ddl_built() -> bool:
    """False: IBM's DDL is no more."""
    return False


def ccl_built() -> bool:
    """False: oneCCL is not used."""
    return False


def cuda_built() -> bool:
    """Whether this build has kernels for GPUs, as Horovod's that was compiled with CUDA. Nothing is initialised."""
    return bool(_core.gpu_kernels())


def rocm_built() -> bool:
    """False: GPUs of AMD are not used."""
    return False
