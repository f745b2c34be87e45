"""What tapes and optimizers have in common: how the gradients of a step are reduced, and which of
them are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from hvdlite.adapter.at_once import reduction
from hvdlite.adapter.step import Local, Members, Options
from hvdlite.tensorflow.gradients import BACKEND, scope_of
from hvdlite.tensorflow.ops import do_not_convert

VARIABLES = Members(
    "variable", "tf.Variable", True, "a tf.Variable", lambda member: hasattr(member, "assign")
)


class Distribution:
    """Options, and the variables that belong to this rank alone."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.local = Local()

    @do_not_convert
    def reduced(self, grads: Sequence[Any], variables: Sequence[Any], scope: str) -> list[Any]:
        """The gradients as they are to be applied; those of local variables only scaled."""
        grads = [g if g is None or BACKEND.is_sparse(g) else tf.convert_to_tensor(g) for g in grads]
        if not self.options.reduces():
            return grads
        options = replace(self.options, scope=f"{scope_of(scope)}/")
        return reduction.reduced(options, BACKEND, grads, variables, self.local.ids())
