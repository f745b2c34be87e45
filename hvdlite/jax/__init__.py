"""Horovod's API for JAX: pytrees instead of tensors, optax's transformations instead of optimizers.

    import hvdlite.jax as hvd

    hvd.init()
    params = hvd.broadcast_parameters(params, root_rank=0)
    optimizer = hvd.distributed(optax.adam(1e-3))

docs/guides/jax.md tells the whole story.
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
from hvdlite.jax.errors import translated_errors as translated_errors
from hvdlite.jax.functions import *  # noqa: F403
from hvdlite.jax.ops import *  # noqa: F403
from hvdlite.jax.optimizer import distributed as distributed
from hvdlite.jax.strategies import *  # noqa: F403
from hvdlite.job import public as _public
from hvdlite.job.public import *  # noqa: F403

__all__ = ["Compression", "data", "distributed", "elastic", "translated_errors"]
__all__ += _public.__all__
__all__ += _exceptions.__all__
__all__ += _functions.__all__
__all__ += _ops.__all__
__all__ += _strategies.__all__
