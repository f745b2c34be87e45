"""Horovod's API for JAX: pytrees instead of tensors, optax's transformations instead of optimizers.

    import hvdlite.jax as hvd

    hvd.init()
    params = hvd.broadcast_parameters(params, root_rank=0)
    optimizer = hvd.distributed(optax.adam(1e-3))

docs/guides/jax.md tells the whole story.
"""

from __future__ import annotations

from hvdlite.basics import (
    cross_rank,
    cross_size,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)
from hvdlite.exceptions import (
    DuplicateNameError,
    HorovodInternalError,
    MismatchError,
    NotInitializedError,
    PeerLostError,
    ShutDownError,
)
from hvdlite.jax.compression import Compression
from hvdlite.jax.errors import translated_errors
from hvdlite.jax.functions import allgather_object, broadcast_object, broadcast_parameters
from hvdlite.jax.ops import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    join,
    reducescatter,
)
from hvdlite.jax.optimizer import distributed
from hvdlite.observe import start_timeline, stop_timeline
from hvdlite.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DuplicateNameError",
    "HorovodInternalError",
    "Max",
    "Min",
    "MismatchError",
    "NotInitializedError",
    "PeerLostError",
    "ProcessSet",
    "Product",
    "ShutDownError",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_object",
    "broadcast_parameters",
    "cross_rank",
    "cross_size",
    "distributed",
    "global_process_set",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "rank",
    "reducescatter",
    "remove_process_set",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "translated_errors",
]
