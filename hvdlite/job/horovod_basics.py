"""Horovod's questions about the build, and its object HorovodBasics.

hvdlite has one binary, so the answers say what can be used here and now.
"""

from __future__ import annotations

import sys

from hvdlite import _core
from hvdlite.job import basics, libraries, observe

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
    from hvdlite.job.bootstrap import mpi

    try:
        mpi.find()
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
        return libraries.find_nccl()
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


class HorovodBasics:
    """horovod.common.basics: the functions of hvdlite.job.basics and those above as methods of one
    object. Programs use it as hvd.mpi_ops._basics, mostly for the existing process sets.

    Has no state of its own. Horovod's class takes arguments that name the library to load.
    """

    def __init__(self, *unused: object) -> None:
        pass

    init = staticmethod(basics.init)
    shutdown = staticmethod(basics.shutdown)
    is_initialized = staticmethod(basics.is_initialized)
    rank = staticmethod(basics.rank)
    size = staticmethod(basics.size)
    local_rank = staticmethod(basics.local_rank)
    local_size = staticmethod(basics.local_size)
    cross_rank = staticmethod(basics.cross_rank)
    cross_size = staticmethod(basics.cross_size)
    is_homogeneous = staticmethod(basics.is_homogeneous)
    start_timeline = staticmethod(observe.start_timeline)
    stop_timeline = staticmethod(observe.stop_timeline)
    mpi_threads_supported = staticmethod(mpi_threads_supported)
    mpi_enabled = staticmethod(mpi_enabled)
    mpi_built = staticmethod(mpi_built)
    gloo_enabled = staticmethod(gloo_enabled)
    gloo_built = staticmethod(gloo_built)
    nccl_built = staticmethod(nccl_built)
    ddl_built = staticmethod(ddl_built)
    ccl_built = staticmethod(ccl_built)
    cuda_built = staticmethod(cuda_built)
    rocm_built = staticmethod(rocm_built)

    def _get_process_set_ids_and_ranks(self) -> dict[int, list[int]]:
        return {number: _core.process_set_ranks(number) for number in _core.process_set_ids()}
