"""The backend "hvdlite" of torch.distributed.

    torch.distributed.init_process_group("hvdlite")

works without an import of this module from torch 2.5 on, because torch loads the backend itself
(hvdlite/torch/autoload.py). `init()` does it in ranks that have no variables of torchrun.

    backend     START HERE: what torch calls
    group       the process group: torch's collectives by hvdlite's operations
    face        what else torch asks a group about
    work        torch's handle of an operation, and the future of it
    landing     what completes futures for which C++ waits
    older       what is done instead with older versions of torch
    sets        the process set of a group
    carried, reductions    tensors and options
    p2p         send and recv, by torch's gloo
    start       init()
"""

from __future__ import annotations

from typing import Any

from torch import distributed as _dist

if not _dist.is_available():
    raise ImportError("this torch was built without torch.distributed", name=__name__)

from hvdlite.torch.distributed import face as _face
from hvdlite.torch.distributed import landing as _landing
from hvdlite.torch.distributed import work as _work
from hvdlite.torch.distributed.backend import create as create
from hvdlite.torch.distributed.backend import register as _register
from hvdlite.torch.distributed.group import ProcessGroup as ProcessGroup
from hvdlite.torch.distributed.start import init as init
from hvdlite.torch.distributed.unseen import hide as _hide

__all__ = ["init"]

_register()
_hide(ProcessGroup, _face.Face, _work.Work, _landing.ByBackward)


def __getattr__(name: str) -> Any:
    """Names that this module had before it was about torch.distributed."""
    if name in ("CLOSURE", "Distributed"):
        from hvdlite.torch import distributed_optimizer

        return getattr(distributed_optimizer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
