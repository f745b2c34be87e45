"""Small names that programs and tests written for Horovod reach for."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from hvdlite.base.ops import reduction_of

__all__ = [
    "check_num_rank_power_of_2", "gpu_available", "handle_average_backwards_compatibility",
    "refs_to_vars", "vars_to_refs",
]  # fmt: skip


_executing_eagerly = tf.executing_eagerly
_make_subgraph = tf.function
_cache = functools.cache


def vars_to_refs(variables: Any) -> Any:
    """Variables as what may be a key."""
    if isinstance(variables, (list, tuple)):
        return tuple(vars_to_refs(v) for v in variables)
    return variables.ref()


def refs_to_vars(refs: Any) -> Any:
    """The reverse of vars_to_refs()."""
    if isinstance(refs, (list, tuple)):
        return [refs_to_vars(r) for r in refs]
    return refs.deref()


def handle_average_backwards_compatibility(op: int | None, average: bool | None) -> int:
    """The reduction that a call with Horovod's older `average` means."""
    return reduction_of(average, op)


def check_num_rank_power_of_2(num_rank: int) -> bool:
    """Whether it is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def gpu_available(*unused: Any) -> bool:
    """Whether TensorFlow has a GPU."""
    return bool(tf.config.list_physical_devices("GPU"))
