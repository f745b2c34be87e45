"""Finds NVIDIA's libraries in Python packages. The system's loader does not look there."""

from __future__ import annotations

import os
import sys

from hvdlite import _core
from hvdlite.base import knobs

__all__ = ["find_nccl", "nccl_wheel"]


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
