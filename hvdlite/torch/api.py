"""Every public name of `hvdlite.torch`, which gets them from here when the first is asked for."""

from __future__ import annotations

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


_basics = _HorovodBasics()
