"""The backend "hvdlite" of torch.distributed.

    torch.distributed.init_process_group("hvdlite")

works without an import of this module from torch 2.5 on, because torch loads the backend itself
(hvdlite/torch/autoload.py). `init()` does it in ranks that have no variables of torchrun.

    backend         START HERE: what torch calls to make a group, and init()
    group           the process group: torch's collectives by hvdlite's operations
    reconfigurable  a group whose members the program chooses, again and again
    messages        send and recv by torch's gloo, and a store that lives as long as the job
    face            what else torch asks a group about
    work            torch's handle of an operation, and what completes its future
    tensors         tensors and options as hvdlite takes them
    arrivals        who has not come to a collective of another backend
    older           what is done instead with older versions of torch
"""

from __future__ import annotations

from typing import Any

from torch import distributed as _dist

if not _dist.is_available():
    raise ImportError("this torch was built without torch.distributed", name=__name__)

from hvdlite.torch.distributed import backend as _backend
from hvdlite.torch.distributed.backend import create as create
from hvdlite.torch.distributed.backend import init as init
from hvdlite.torch.distributed.face import Face as _Face
from hvdlite.torch.distributed.group import DeviceBackend as _DeviceBackend
from hvdlite.torch.distributed.group import Operations as _Operations
from hvdlite.torch.distributed.group import ProcessGroup as ProcessGroup
from hvdlite.torch.distributed.work import ByBackward as _ByBackward
from hvdlite.torch.distributed.work import Work as _Work

__all__ = ["init"]

_backend.register()
_backend.hide(_Operations, ProcessGroup, _DeviceBackend, _Face, _Work, _ByBackward)


def __getattr__(name: str) -> Any:
    """Names that this module had before it was about torch.distributed."""
    if name in ("CLOSURE", "Distributed"):
        from hvdlite.torch import distributed_optimizer

        return getattr(distributed_optimizer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
