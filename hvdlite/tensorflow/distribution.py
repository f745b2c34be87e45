"""What tapes and optimizers have in common: how the gradients of a step are reduced, and which of them are not."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from hvdlite.adapter.grouping import positions
from hvdlite.base.ops import Adasum, Average
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.tensorflow.gradients import allreduce_gradients, needs_reduction
from hvdlite.tensorflow.place import members


@dataclass(frozen=True)
class Distribution:
    """Settings, and the variables that belong to this rank alone."""

    op: int
    prescale: float
    postscale: float
    compression: Any
    sparse_as_dense: bool
    groups: Any  # None, how many, or lists of variables
    process_set: ProcessSet
    scale_local_gradients: bool
    # By identity: variables of Keras 3 have no ref(). The values keep the keys valid.
    local: dict[int, Any] = field(default_factory=dict)

    def keep_local(self, variables: Iterable[Any]) -> None:
        self.local.update({id(variable): variable for variable in variables})

    def reduce(self, grads: Sequence[Any], variables: Sequence[Any], scope: str) -> list[Any]:
        """The gradients as they are to be applied; those of local variables only scaled."""
        result = list(grads)
        mine = [i for i, v in enumerate(variables) if id(v) in self.local]
        everyones = [i for i, v in enumerate(variables) if id(v) not in self.local]
        reduced = allreduce_gradients(
            [grads[i] for i in everyones],
            op=self.op,
            prescale=self.prescale,
            postscale=self.postscale,
            compression=self.compression,
            sparse_as_dense=self.sparse_as_dense,
            process_set=self.process_set,
            names=[f"grad_{i}" for i in everyones],
            scope=scope,
            groups=positions(self.groups, [variables[i] for i in everyones]),
        )
        for i, gradient in zip(everyones, reduced, strict=True):
            result[i] = gradient
        if self.scale_local_gradients and needs_reduction(self.process_set):
            for i in mine:
                result[i] = _divided(result[i], self.process_set)
        return result


def settle(
    *,
    op: int,
    gradient_predivide_factor: float = 1.0,
    compression: Any,
    sparse_as_dense: bool,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Distribution:
    """Horovod's arguments, checked."""
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if op == Adasum and process_set.process_set_id != 0:
        raise NotImplementedError("Adasum does not support non-global process sets yet.")
    if num_groups:
        warnings.warn("num_groups is deprecated, use groups=", DeprecationWarning, stacklevel=3)
        groups = num_groups if groups is None else groups
    _check_groups(groups)
    return Distribution(
        op,
        1.0 / gradient_predivide_factor,
        gradient_predivide_factor,
        compression,
        sparse_as_dense,
        groups,
        process_set,
        scale_local_gradients,
    )


def _check_groups(groups: Any) -> None:
    if groups is None or (isinstance(groups, int) and not isinstance(groups, bool) and groups >= 0):
        return
    if not isinstance(groups, (list, tuple)) or not all(isinstance(group, (list, tuple)) for group in groups):
        raise ValueError(f"groups should be a non-negative integer or a list of lists of tf.Variable, not {groups!r}")
    seen: set[int] = set()
    for variable in (v for group in groups for v in group):
        if not hasattr(variable, "assign"):
            raise ValueError(f"groups: expected a tf.Variable, got {type(variable).__name__}")
        if id(variable) in seen:
            raise ValueError("groups: a variable must not be in them more than once")
        seen.add(id(variable))


def _divided(gradient: Any, process_set: ProcessSet) -> Any:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values / members(process_set, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / members(process_set, gradient.dtype)
