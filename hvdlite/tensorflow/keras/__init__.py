"""hvdlite.keras under Horovod's other name for it, with that package's two signatures."""

from __future__ import annotations

import sys as _sys
from typing import Any

from hvdlite import keras as _keras
from hvdlite.adapter.strategy import Strategy
from hvdlite.keras import *  # noqa: F403
from hvdlite.keras import Average, Compression, ProcessSet, callbacks, elastic, global_process_set

__all__ = _keras.__all__

# So that they can be imported by these names, too.
_sys.modules[f"{__name__}.callbacks"] = callbacks
_sys.modules[f"{__name__}.elastic"] = elastic


def DistributedOptimizer(  # type: ignore[no-redef]
                         optimizer: Any, name: str | None = None, device_dense: str = "",
                         device_sparse: str = "", compression: Any = Compression.none,
                         sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
                         op: int = Average, backward_passes_per_step: int = 1,
                         average_aggregated_gradients: bool = False, num_groups: int = 0,
                         groups: Any = None, process_set: ProcessSet = global_process_set,
                         scale_local_gradients: bool = True, *,
                         strategy: Strategy | None = None) -> Any:  # fmt: skip
    """hvdlite.keras.DistributedOptimizer()."""
    return _keras.DistributedOptimizer(
        optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
        gradient_predivide_factor, op, num_groups, groups,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients, process_set=process_set,
        scale_local_gradients=scale_local_gradients, strategy=strategy)  # fmt: skip


def allreduce(  # type: ignore[no-redef]
              value: Any, name: str | None = None, average: bool | None = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0, op: int | None = None,
              compression: Any = Compression.none) -> Any:  # fmt: skip
    """hvdlite.keras.allreduce()."""
    if average is not None and op is not None:
        raise ValueError("op= and average= both name the reduction: pass op= alone")
    return _keras.allreduce(
        value, name, average is not False, prescale_factor, postscale_factor, op, compression
    )


def __dir__() -> list[str]:
    return dir(_keras)
