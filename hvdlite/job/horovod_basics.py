"""horovod.common.basics: the functions of hvdlite.job.basics and hvdlite.job.built as methods of
one object.

Programs use it as hvd.mpi_ops._basics, mostly for the existing process sets.
"""

from __future__ import annotations

from hvdlite import _core
from hvdlite.job import basics, built, observe

__all__ = ["HorovodBasics"]


class HorovodBasics:
    """Has no state of its own. Horovod's class takes arguments that name the library to load."""

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
    mpi_threads_supported = staticmethod(built.mpi_threads_supported)
    mpi_enabled = staticmethod(built.mpi_enabled)
    mpi_built = staticmethod(built.mpi_built)
    gloo_enabled = staticmethod(built.gloo_enabled)
    gloo_built = staticmethod(built.gloo_built)
    nccl_built = staticmethod(built.nccl_built)
    ddl_built = staticmethod(built.ddl_built)
    ccl_built = staticmethod(built.ccl_built)
    cuda_built = staticmethod(built.cuda_built)
    rocm_built = staticmethod(built.rocm_built)

    def _get_process_set_ids_and_ranks(self) -> dict[int, list[int]]:
        return {number: _core.process_set_ranks(number) for number in _core.process_set_ids()}
