"""Horovod's API for JAX: pytrees instead of tensors, optax's transformations instead of optimizers.

    import hvdlite.jax as hvd

    hvd.init()
    params = hvd.broadcast_parameters(params, root_rank=0)
    optimizer = hvd.distributed(optax.adam(1e-3))

docs/guides/jax.md tells the whole story.

    ops            START HERE: the collectives on pytrees
    traced         as operations of a compiled program, and the order of several
    trace          whether the caller is being traced
    optimizer      hvd.distributed(), and a schedule for large jobs
    gradients      the reduction of a step's gradients
    functions      broadcast_parameters() and its like, DriftGuard, translated_errors()
    framework      JAX's primitives for hvdlite.core, and what may stand in a pytree
    compression    hvd.Compression, and the memory of compressors in an optimizer's state
    strategies     local steps, 1-bit Adam
    elastic        JaxState
"""

from __future__ import annotations

from hvdlite import data as data
from hvdlite import exceptions as _exceptions
from hvdlite.exceptions import *  # noqa: F403
from hvdlite.jax import elastic as elastic
from hvdlite.jax import functions as _functions
from hvdlite.jax import ops as _ops
from hvdlite.jax import strategies as _strategies
from hvdlite.jax.compression import Compression as Compression
from hvdlite.jax.functions import *  # noqa: F403
from hvdlite.jax.functions import DriftGuard as DriftGuard
from hvdlite.jax.functions import translated_errors as translated_errors
from hvdlite.jax.ops import *  # noqa: F403
from hvdlite.jax.optimizer import distributed as distributed
from hvdlite.jax.optimizer import linear_warm_up as linear_warm_up
from hvdlite.jax.strategies import *  # noqa: F403
from hvdlite.job import public as _public
from hvdlite.job.public import *  # noqa: F403

__all__ = [
    "Compression", "DriftGuard", "data", "distributed", "elastic", "linear_warm_up",
    "translated_errors",
]  # fmt: skip
__all__ += _public.__all__
__all__ += _exceptions.__all__
__all__ += _functions.__all__
__all__ += _ops.__all__
__all__ += _strategies.__all__


def __dir__() -> list[str]:
    return _public.listed(__all__)
