"""Where NVIDIA's libraries are that are installed as packages of Python: the loader of the system does not look there."""

from __future__ import annotations

import os
import sys

from hvdlite import _core
from hvdlite.base import knobs

__all__ = ["find_nccl", "nccl_wheel"]


def find_nccl() -> int:
    """The version of the NCCL that this process would take, 22803 for 2.28.3; loads it. NotImplementedError: why there is none."""
    settings = knobs.resolve(os.environ)
    return _core.find_nccl(str(settings["nccl_library"]), str(settings["nccl_wheel"]) or nccl_wheel())


def nccl_wheel() -> str:
    """The folders of packages, one of which may have nvidia-nccl-cu*. They are looked at when NCCL is needed first."""
    return os.pathsep.join(filter(None, sys.path))
