"""Horovod's API for TensorFlow 2.

    import hvdlite.tensorflow as hvd

    hvd.init()
    with tf.GradientTape() as tape:
        loss = ...
    tape = hvd.DistributedGradientTape(tape)
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    if first_batch:
        hvd.broadcast_variables(variables, root_rank=0)

docs/guides/tensorflow.md tells the whole story.
"""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING, Any

from hvdlite.adapter import interrupts
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
from hvdlite.built import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from hvdlite.horovod_basics import HorovodBasics as _HorovodBasics
from hvdlite.observe import start_timeline, stop_timeline
from hvdlite.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from hvdlite.tensorflow import elastic, util
from hvdlite.tensorflow.aggregation import LocalGradientAggregationHelper
from hvdlite.tensorflow.compression import Compression
from hvdlite.tensorflow.functions import (
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from hvdlite.tensorflow.ops import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    _allreduce,
    _grouped_allreduce,
    allgather,
    allreduce,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from hvdlite.tensorflow.optimizer import DistributedOptimizer, _LegacyOptimizer, _make_allreduce_grads_fn
from hvdlite.tensorflow.place import (
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)
from hvdlite.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape
from hvdlite.tensorflow.util import (
    _cache,
    _executing_eagerly,
    _make_subgraph,
    check_num_rank_power_of_2,
    gpu_available,
    handle_average_backwards_compatibility,
    refs_to_vars,
    vars_to_refs,
)

if TYPE_CHECKING:
    from hvdlite.tensorflow.sync_batch_norm import SyncBatchNormalization

# Under the name that Horovod's programs import.
mpi_ops = _sys.modules[__name__]
_basics = _HorovodBasics()
_sys.modules[f"{__name__}.mpi_ops"] = mpi_ops

# The main thread is then inside TensorFlow, whatever that waits for.
interrupts.watch(lambda file: "tensorflow" in file)


def __getattr__(name: str) -> Any:
    # A layer of Keras: only who asks for it waits until Keras is loaded.
    if name == "SyncBatchNormalization":
        from hvdlite.tensorflow.sync_batch_norm import SyncBatchNormalization

        return SyncBatchNormalization
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Adasum",
    "Average",
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "LocalGradientAggregationHelper",
    "Max",
    "Min",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNormalization",
    "_LegacyOptimizer",
    "_allreduce",
    "_cache",
    "_executing_eagerly",
    "_grouped_allreduce",
    "_make_allreduce_grads_fn",
    "_make_subgraph",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "ccl_built",
    "check_num_rank_power_of_2",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "gpu_available",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "handle_average_backwards_compatibility",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "mpi_built",
    "mpi_enabled",
    "mpi_ops",
    "mpi_threads_supported",
    "nccl_built",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reducescatter",
    "refs_to_vars",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "stop_timeline",
    "util",
    "vars_to_refs",
]
