"""`python -m hvdlite.job.gpu_report`: prints what there is for tensors on a GPU, in lines for
`hvdliterun --check-build`. It is a process of its own, because it initialises CUDA and loads NCCL.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from hvdlite import _core
from hvdlite.base import knobs
from hvdlite.job import gpu_libraries


def rows() -> Iterator[tuple[bool, str]]:
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
        version = gpu_libraries.find_nccl()
        yield True, f"NCCL: {version // 10000}.{version % 10000 // 100}.{version % 100}"
    except NotImplementedError as error:
        yield False, str(error)


if __name__ == "__main__":
    for there, text in rows():
        print("X" if there else "-", text)
