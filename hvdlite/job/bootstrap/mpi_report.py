"""`python -m hvdlite.job.bootstrap.mpi_report`: prints the MPI that mpi4py loads here, in lines for
`hvdliterun --check-build -v`. It is a process of its own, because MPI may end the process that
initialises it."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from hvdlite.job.bootstrap import mpi_library
from hvdlite.job.bootstrap.mpi_library import LEVELS, Wish
from hvdlite.launch.environment import Identity


def lines() -> list[str]:
    """ConnectionError says why there is none."""
    mpi = mpi_library.load(Identity(), Wish())
    level = LEVELS[mpi_library.threads(mpi)].upper()
    return [
        f"{mpi_library.name_of(mpi)}, through {mpi.__file__}",
        f"threads: MPI_THREAD_{level}",
        f"tensors of a GPU: {_cuda(mpi)}; hvdlite sends them through host memory in this version",
    ]


def _cuda(mpi: Any) -> str:
    """Returns what the library says about its support of CUDA."""
    # the module depends on the library, so it finds its functions
    library = ctypes.CDLL(mpi.__file__)
    if hasattr(library, "MPIX_Query_cuda_support"):  # Open MPI
        return "MPI is CUDA-aware" if library.MPIX_Query_cuda_support() else "MPI is not CUDA-aware"
    if hasattr(library, "MPIX_GPU_query_support"):  # MPICH; 0 is MPIX_GPU_SUPPORT_CUDA
        answer = ctypes.c_int(0)
        failed = library.MPIX_GPU_query_support(0, ctypes.byref(answer))
        return "MPI is CUDA-aware" if answer.value and not failed else "MPI is not CUDA-aware"
    return "MPI does not say whether it is CUDA-aware"


if __name__ == "__main__":
    try:
        print("\n".join(lines()))
    except ConnectionError as error:
        sys.exit(str(error))
