"""The libraries of NVIDIA and of MPI that a process would use here.

`python -m hvdlite.job.libraries gpu` and `... mpi` print them, in lines for
`hvdliterun --check-build`. Each is a process of its own: the former initialises CUDA and loads
NCCL, and MPI may end the process that initialises it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from hvdlite import _core
from hvdlite.base import knobs


def find_nccl() -> int:
    """Returns the version of the NCCL that this process would use, 22803 for 2.28.3, and loads it.
    NotImplementedError says why there is none."""
    settings = knobs.resolve(os.environ)
    return _core.find_nccl(
        str(settings["nccl_library"]), str(settings["nccl_wheel"]) or nccl_wheel()
    )


def nccl_wheel() -> str:
    """Returns the folders of packages, one of which may have nvidia-nccl-cu*. They are searched
    when NCCL is first needed."""
    return os.pathsep.join(filter(None, sys.path))


def gpu_rows() -> Iterator[tuple[bool, str]]:
    """Yields for each part whether it is there, and which it is or why it is missing."""
    compiler = _core.gpu_kernels()
    yield (
        bool(compiler),
        f"kernels: compiled by {compiler}"
        if compiler
        else "kernels: none, because neither nvcc nor NVRTC was there when this was built; tensors "
        "are staged through host memory",
    )
    try:
        version = _core.find_cuda(str(knobs.resolve(os.environ)["cuda_library"]))
        yield True, f"CUDA: the driver is that of {version // 1000}.{version % 1000 // 10}"
    except NotImplementedError as error:
        yield False, str(error)
    try:
        version = find_nccl()
        yield True, f"NCCL: {version // 10000}.{version % 10000 // 100}.{version % 100}"
    except NotImplementedError as error:
        yield False, str(error)


def mpi_lines() -> list[str]:
    """Returns what MPI mpi4py loads here. ConnectionError says why there is none."""
    from hvdlite.job.bootstrap import mpi
    from hvdlite.launch.environment import Identity

    loaded = mpi.load(Identity(), mpi.MpiRequest())
    level = mpi.LEVELS[mpi.threads(loaded)].upper()
    return [
        f"{mpi.name_of(loaded)}, through {loaded.__file__}",
        f"threads: MPI_THREAD_{level}",
        f"tensors of a GPU: {_cuda(loaded)}; hvdlite sends them through host memory in this "
        "version",
    ]


def _cuda(mpi: Any) -> str:
    """Returns what the library says about its support of CUDA."""
    import ctypes  # init() needs this module, and not that one

    # the module depends on the library, so it finds its functions
    library = ctypes.CDLL(mpi.__file__)
    if hasattr(library, "MPIX_Query_cuda_support"):  # Open MPI
        return "MPI is CUDA-aware" if library.MPIX_Query_cuda_support() else "MPI is not CUDA-aware"
    if hasattr(library, "MPIX_GPU_query_support"):  # MPICH; 0 is MPIX_GPU_SUPPORT_CUDA
        answer = ctypes.c_int(0)
        failed = library.MPIX_GPU_query_support(0, ctypes.byref(answer))
        return "MPI is CUDA-aware" if answer.value and not failed else "MPI is not CUDA-aware"
    return "MPI does not say whether it is CUDA-aware"


def main(which: str) -> None:
    if which == "gpu":
        print("\n".join(f"{'X' if there else '-'} {text}" for there, text in gpu_rows()))
        return
    try:
        print("\n".join(mpi_lines()))
    except ConnectionError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1])
