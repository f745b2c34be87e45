"""Horovod's API for Keras 3 on TensorFlow, torch and JAX, and for tf_keras under
TF_USE_LEGACY_KERAS=1.

    import hvdlite.keras as hvd

    hvd.init()
    model.compile(optimizer=hvd.DistributedOptimizer(optimizer), loss=...)
    model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                              hvd.callbacks.MetricAverageCallback()])

docs/guides/keras.md tells the whole story.

    optimizer      START HERE: DistributedOptimizer and its relatives
    distributed    what they add to the class of a Keras 3 optimizer
    legacy         the same for tf_keras
    wrapping       what all functions ask and do that wrap an optimizer
    callbacks      for fit()
    values         collectives on values
    host           variables and their contents in host memory
    compression    hvd.Compression
    flavour        which Keras this is, and on which backend
    backends       one module for each backend
    strategies     local steps, large batches, 1-bit Adam
    elastic        KerasState and its callbacks
    in_place       hvd.elastic.fit(), which goes on where it is when ranks die, leave and come
"""

from __future__ import annotations

from hvdlite import data as data
from hvdlite import exceptions as _exceptions
from hvdlite.base import ops as _ops
from hvdlite.base.ops import *  # noqa: F403
from hvdlite.core.arrays import objects as _objects
from hvdlite.core.arrays.objects import *  # noqa: F403
from hvdlite.exceptions import *  # noqa: F403
from hvdlite.job import public as _public
from hvdlite.job.public import *  # noqa: F403
from hvdlite.keras import callbacks as callbacks
from hvdlite.keras import elastic as elastic
from hvdlite.keras import strategies as _strategies
from hvdlite.keras import values as _values
from hvdlite.keras.compression import Compression as Compression
from hvdlite.keras.optimizer import DistributedOptimizer, PartialDistributedOptimizer, load_model
from hvdlite.keras.strategies import *  # noqa: F403
from hvdlite.keras.values import *  # noqa: F403

__all__ = [
    "Compression", "DistributedOptimizer", "PartialDistributedOptimizer", "callbacks", "data",
    "elastic", "load_model",
]  # fmt: skip
__all__ += _public.__all__
__all__ += _exceptions.__all__
__all__ += _objects.__all__
__all__ += _ops.__all__
__all__ += _values.__all__
__all__ += _strategies.__all__


def __dir__() -> list[str]:
    return _public.listed(__all__)
