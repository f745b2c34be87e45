"""Keras 3: the sums of several passes are variables of the optimizer, because on JAX a step has no
other memory.

They are not saved with the optimizer, so that a file fits the plain optimizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.adapter.at_once import reduction
from hvdlite.adapter.step import Options
from hvdlite.keras.backends import Backend
from hvdlite.keras.flavour import KERAS


class Accumulation(reduction.Accumulation):
    def __init__(
        self, optimizer: Any, variables: Sequence[Any], options: Options, backend: Backend
    ) -> None:
        super().__init__(backend, options.passes, options.average_passes, options.sparse_as_dense)
        self._optimizer = optimizer
        self._number_of = {id(variable): i for i, variable in enumerate(variables)}
        before = len(optimizer._variables)
        #: how many passes are in the sums
        self.counter = optimizer.add_variable((), "zeros", "int32", name="passes")
        self._sums = [
            optimizer.add_variable_from_reference(v, name="sum_of_gradients") for v in variables
        ]
        #: the identities of these variables, which files do not have
        self.own = {id(variable) for variable in optimizer._variables[before:]}

    def is_last(self) -> Any:
        """Whether this pass ends the step; a tensor."""
        return KERAS.ops.equal(self.counter, self.passes - 1)

    def plus(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The sums with those of this pass, in the order of `variables`."""
        totals = []
        for gradient, variable in zip(map(self.dense, gradients), variables, strict=True):
            held = self._sums[self._number_of[id(variable)]]
            totals.append(held.value if gradient is None else KERAS.ops.add(held.value, gradient))
        return totals

    def keep(self, totals: Sequence[Any], variables: Sequence[Any]) -> None:
        """The pass ends without a reduction."""
        for total, variable in zip(totals, variables, strict=True):
            self._sums[self._number_of[id(variable)]].assign(total)
        self.counter.assign_add(1)
        # Horovod's optimizers count every pass, and so do schedules of the learning rate.
        getattr(self._optimizer, "inner_optimizer", self._optimizer)._iterations.assign_add(1)

    def empty(self) -> None:
        """The sums are reduced: the next pass begins a step."""
        for held in self._sums:
            held.assign(KERAS.ops.zeros_like(held.value))
        self.counter.assign(0)
