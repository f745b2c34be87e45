"""backward_passes_per_step: gradients add up here for so many steps before they travel.

The sums are variables of the optimizer, because on JAX a step has no other memory; but they are not saved with it, so that
a file fits the plain optimizer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from hvdlite.adapter.step import Options
from hvdlite.keras.backends import Backend
from hvdlite.keras.flavour import KERAS

_SPARSE = "backward_passes_per_step > 1 needs sparse_as_dense=True for sparse gradients (tf.IndexedSlices)"


class Accumulation:
    def __init__(self, optimizer: Any, variables: Sequence[Any], options: Options) -> None:
        self._options = options
        self._optimizer = optimizer
        self._number_of = {id(variable): i for i, variable in enumerate(variables)}
        before = len(optimizer._variables)
        #: how many passes are in the sums
        self.counter = optimizer.add_variable((), "zeros", "int32", name="passes")
        self._sums = [optimizer.add_variable_from_reference(v, name="sum_of_gradients") for v in variables]
        self._own = {id(variable) for variable in optimizer._variables[before:]}

    def is_last(self) -> Any:
        """Whether the gradients travel with this pass; a tensor."""
        return KERAS.ops.equal(self.counter, self._options.passes - 1)

    def plus(self, backend: Backend, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The sums with those of this pass, in the order of `variables`."""
        totals = []
        for gradient, variable in zip(gradients, variables, strict=True):
            held = self._sums[self._number_of[id(variable)]]
            if gradient is not None and backend.is_sparse(gradient):
                if not self._options.sparse_as_dense:
                    raise ValueError(_SPARSE)
                gradient = backend.to_dense(gradient)
            totals.append(held.value if gradient is None else KERAS.ops.add(held.value, gradient))
        return totals

    def settled(self, totals: Sequence[Any]) -> list[Any]:
        """What travels: the sums, or the averages if the program asked for them."""
        if not self._options.average_passes:
            return list(totals)
        return [KERAS.ops.divide(total, self._options.passes) for total in totals]

    def keep(self, totals: Sequence[Any], variables: Sequence[Any]) -> None:
        """The pass ends here."""
        for total, variable in zip(totals, variables, strict=True):
            self._sums[self._number_of[id(variable)]].assign(total)
        self.counter.assign_add(1)
        # Horovod's optimizers count every pass, and so do schedules of the learning rate.
        getattr(self._optimizer, "inner_optimizer", self._optimizer)._iterations.assign_add(1)

    def empty(self) -> None:
        """The gradients have travelled."""
        for held in self._sums:
            held.assign(KERAS.ops.zeros_like(held.value))
        self.counter.assign(0)

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """In this context the optimizer has the variables of the plain one."""
        optimizer = self._optimizer
        everything = optimizer._variables
        plain = [v for v in everything if id(v) not in self._own]
        object.__setattr__(optimizer, "_variables", plain)  # on TensorFlow, Keras tracks what is set in the usual way
        try:
            yield
        finally:
            object.__setattr__(optimizer, "_variables", everything)
