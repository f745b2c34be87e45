"""What tapes and optimizers have in common: how the gradients of a step are reduced, and which of them are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvdlite.adapter.grouping import Members, positions
from hvdlite.adapter.step import Local, Options
from hvdlite.base.ops import Adasum
from hvdlite.core.process_sets import ProcessSet
from hvdlite.tensorflow.gradients import allreduce_gradients, needs_reduction
from hvdlite.tensorflow.place import members

VARIABLES = Members("variable", "tf.Variable", True, "a tf.Variable", lambda member: hasattr(member, "assign"))


class Distribution:
    """Options, and the variables that belong to this rank alone."""

    def __init__(self, options: Options) -> None:
        if options.op == Adasum and options.process_set.process_set_id != 0:
            raise NotImplementedError("op=hvd.Adasum works on all ranks only, not in process sets")
        self.options = options
        self.local = Local()

    def reduced(self, grads: Sequence[Any], variables: Sequence[Any], scope: str) -> list[Any]:
        """The gradients as they are to be applied; those of local variables only scaled."""
        options, local = self.options, self.local.ids()
        result = list(grads)
        mine = [i for i, v in enumerate(variables) if id(v) in local]
        everyones = [i for i, v in enumerate(variables) if id(v) not in local]
        names = [f"grad_{i}" for i in everyones]
        groups = positions(options.groups, [variables[i] for i in everyones])
        reduced = allreduce_gradients([grads[i] for i in everyones], options, names=names, scope=scope, groups=groups)
        for i, gradient in zip(everyones, reduced, strict=True):
            result[i] = gradient
        if options.scale_local and needs_reduction(options):
            for i in mine:
                result[i] = _divided(result[i], options.process_set)
        return result


def _divided(gradient: Any, process_set: ProcessSet) -> Any:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values / members(process_set, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / members(process_set, gradient.dtype)
