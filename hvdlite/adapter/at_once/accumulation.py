"""backward_passes_per_step: the gradients of several passes add up, and the last pass of a step
reduces the sums.

A framework keeps the sums and counts the passes; this class says what goes into a sum and what
leaves it.
"""

from __future__ import annotations

from typing import Any

from hvdlite.adapter.at_once.primitives import Backend

_SPARSE = (
    "a gradient is sparse (tf.IndexedSlices), and with backward_passes_per_step > 1 gradients add "
    "up in dense tensors: pass sparse_as_dense=True"
)


class Accumulation:
    def __init__(self, backend: Backend, passes: int, average: bool, sparse_as_dense: bool) -> None:
        self._backend = backend
        self.passes = passes
        self.average = average
        self.sparse_as_dense = sparse_as_dense

    def dense(self, gradient: Any) -> Any:
        """What is added to the sum; None, if the variable got no gradient in this pass."""
        if gradient is None or not self._backend.is_sparse(gradient):
            return gradient
        if not self.sparse_as_dense:
            raise ValueError(_SPARSE)
        return self._backend.to_dense(gradient)

    def settled(self, total: Any) -> Any:
        """What is reduced after the last pass: the sum, or the mean over the passes if the program
        asked for it."""
        return total / self.passes if self.average and total is not None else total
