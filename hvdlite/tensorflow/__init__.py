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

    ops            START HERE: the collectives, eagerly and inside a tf.function
    graph          as nodes of a graph, by one of the three that follow
    by_kernel      by hvdlite's own kernels
    by_numpy       by way of Python
    xla            by a call of the program that XLA compiles
    tape           DistributedGradientTape
    optimizer      DistributedOptimizer, for TensorFlow 1 and for Keras
    gradients      the reduction of a step's gradients
    aggregation    gradients added up over several backward passes
    aggregation_eager    the same, by another name of Horovod's
    functions      broadcast_variables() and its like, and DriftGuard
    sparse         tf.IndexedSlices
    place          rank_op() and its like
    sync_batch_norm    SyncBatchNormalization
    framework      TensorFlow's primitives for hvdlite.core
    errors         hvdlite's exceptions out of TensorFlow's
    util           small names of Horovod's
    compression    hvd.Compression
    keras          hvdlite.keras, by Horovod's other name for it
    elastic        TensorFlowState, TensorFlowKerasState
"""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING
from typing import Any as _Any

from hvdlite import data as data
from hvdlite import exceptions as _exceptions
from hvdlite.adapter import interrupts as _interrupts
from hvdlite.exceptions import *  # noqa: F403
from hvdlite.job import public as _public
from hvdlite.job.horovod_basics import HorovodBasics as _HorovodBasics
from hvdlite.job.public import *  # noqa: F403
from hvdlite.tensorflow import elastic as elastic
from hvdlite.tensorflow import functions as _functions
from hvdlite.tensorflow import ops as _ops
from hvdlite.tensorflow import optimizer as _optimizer
from hvdlite.tensorflow import place as _place
from hvdlite.tensorflow import util as util
from hvdlite.tensorflow.aggregation import (
    LocalGradientAggregationHelper as LocalGradientAggregationHelper,
)
from hvdlite.tensorflow.compression import Compression as Compression
from hvdlite.tensorflow.functions import *  # noqa: F403
from hvdlite.tensorflow.functions import DriftGuard as DriftGuard
from hvdlite.tensorflow.ops import *  # noqa: F403
from hvdlite.tensorflow.ops import _allreduce as _allreduce
from hvdlite.tensorflow.ops import _grouped_allreduce as _grouped_allreduce
from hvdlite.tensorflow.optimizer import *  # noqa: F403
from hvdlite.tensorflow.optimizer import _LegacyOptimizer as _LegacyOptimizer
from hvdlite.tensorflow.optimizer import _make_allreduce_grads_fn as _make_allreduce_grads_fn
from hvdlite.tensorflow.place import *  # noqa: F403
from hvdlite.tensorflow.tape import DistributedGradientTape as DistributedGradientTape
from hvdlite.tensorflow.tape import PartialDistributedGradientTape as PartialDistributedGradientTape
from hvdlite.tensorflow.util import *  # noqa: F403
from hvdlite.tensorflow.util import _cache as _cache
from hvdlite.tensorflow.util import _executing_eagerly as _executing_eagerly
from hvdlite.tensorflow.util import _make_subgraph as _make_subgraph

if TYPE_CHECKING:
    from hvdlite.tensorflow.sync_batch_norm import SyncBatchNormalization

# Under the name that Horovod's programs import.
mpi_ops = _sys.modules[__name__]
_basics = _HorovodBasics()
_sys.modules[f"{__name__}.mpi_ops"] = mpi_ops

# The main thread is then inside TensorFlow, whatever that waits for.
_interrupts.watch(lambda file: "tensorflow" in file)


def __getattr__(name: str) -> _Any:
    # A layer of Keras: Keras is loaded when a program asks for it.
    if name == "SyncBatchNormalization":
        from hvdlite.tensorflow.sync_batch_norm import SyncBatchNormalization

        return SyncBatchNormalization
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Compression", "DistributedGradientTape", "DriftGuard", "LocalGradientAggregationHelper",
    "PartialDistributedGradientTape", "SyncBatchNormalization", "data", "elastic", "mpi_ops",
    "util",
]  # fmt: skip
__all__ += _public.__all__
__all__ += _exceptions.__all__
__all__ += _functions.__all__
__all__ += _ops.__all__
__all__ += _optimizer.__all__
__all__ += _place.__all__
__all__ += util.__all__


def __dir__() -> list[str]:
    return _public.listed(__all__)
