"""Gradients added up over several backward passes, for optimizers that count their steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.tensorflow.aggregation import LocalGradientAggregationHelper

__all__ = ["LocalGradientAggregationHelperEager"]


class LocalGradientAggregationHelperEager(LocalGradientAggregationHelper):
    """A pass that applies nothing adds one to the optimizer's `iterations`. `process_set` and
    `scale_local_gradients` are taken for Horovod's sake: `allreduce_func` knows them."""

    def __init__(self, backward_passes_per_step: int,
                 allreduce_func: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
                 sparse_as_dense: bool = False, average_aggregated_gradients: bool = False,
                 process_set: ProcessSet = global_process_set,
                 scale_local_gradients: bool = True) -> None:  # fmt: skip
        del process_set, scale_local_gradients
        super().__init__(
            backward_passes_per_step, allreduce_func, sparse_as_dense, average_aggregated_gradients
        )

    def apply_gradients(  # type: ignore[override]
        self, apply_grads_closure: Callable[[], Any], optimizer: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Runs the closure after a pass that has reduced."""
        del args, kwargs
        return super().apply_gradients(
            apply_grads_closure, lambda: optimizer.iterations.assign_add(1)
        )
