"""Horovod's API for PyTorch.

    import hvdlite.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

docs/guides/pytorch.md tells the whole story.
"""

from __future__ import annotations

import sys as _sys

from hvdlite import data as data
from hvdlite import exceptions as _exceptions
from hvdlite.exceptions import *  # noqa: F403
from hvdlite.job import public as _public
from hvdlite.job.horovod_basics import HorovodBasics as _HorovodBasics
from hvdlite.job.public import *  # noqa: F403
from hvdlite.torch import elastic as elastic
from hvdlite.torch import functions as _functions
from hvdlite.torch import memory as _memory
from hvdlite.torch import ops as _ops
from hvdlite.torch import strategies as _strategies
from hvdlite.torch.compression import Compression as Compression
from hvdlite.torch.compression.onebit import OneBitAdam as OneBitAdam
from hvdlite.torch.ddp import ddp_comm_hook as ddp_comm_hook
from hvdlite.torch.functions import *  # noqa: F403
from hvdlite.torch.memory import *  # noqa: F403
from hvdlite.torch.ops import *  # noqa: F403
from hvdlite.torch.optimizer import DistributedOptimizer as DistributedOptimizer
from hvdlite.torch.strategies import *  # noqa: F403
from hvdlite.torch.sync_batch_norm import SyncBatchNorm as SyncBatchNorm

__all__ = [
    "Compression", "DistributedOptimizer", "OneBitAdam", "SyncBatchNorm", "data", "ddp_comm_hook",
    "elastic",
    "mpi_ops",
]  # fmt: skip
__all__ += _public.__all__
__all__ += _exceptions.__all__
__all__ += _functions.__all__
__all__ += _memory.__all__
__all__ += _ops.__all__
__all__ += _strategies.__all__


def _check_has_gpu() -> bool:
    """Horovod's tools ask this of its adapters."""
    import torch

    return torch.cuda.is_available()


# Under the name that Horovod's programs import, for all of these.
mpi_ops = _sys.modules[__name__]
_basics = _HorovodBasics()
_sys.modules[f"{__name__}.mpi_ops"] = mpi_ops
