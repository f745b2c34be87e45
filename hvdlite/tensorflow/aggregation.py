"""Gradients added up over several backward passes, in variables, before they are reduced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from hvdlite.adapter.at_once.reduction import Accumulation
from hvdlite.adapter.step import check_passes
from hvdlite.tensorflow.gradients import BACKEND
from hvdlite.tensorflow.ops import do_not_convert

__all__ = ["LocalGradientAggregationHelper"]


class LocalGradientAggregationHelper(Accumulation):
    """Counts passes in a variable, so that it works in graphs, too: each
    `backward_passes_per_step`-th one reduces.

    `allreduce_func(grads, variables)` does the reduction.
    """

    def __init__(self, backward_passes_per_step: int,
                 allreduce_func: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
                 sparse_as_dense: bool = False,
                 average_aggregated_gradients: bool = False) -> None:  # fmt: skip
        passes = check_passes(backward_passes_per_step)
        super().__init__(BACKEND, passes, average_aggregated_gradients, sparse_as_dense)
        self._allreduce = allreduce_func
        #: passes since the last reduction
        self.counter: Any = None
        # by the variable, or by the position of a gradient without one
        self._sums: dict[int, Any] = {}

    def _sum_of(self, gradient: Any, variable: Any, position: int) -> Any:
        """None for a variable that never got a gradient."""
        key = position if variable is None else id(variable)
        if key not in self._sums and gradient is not None:
            zeros = tf.zeros(gradient.shape, gradient.dtype)
            name = f"hvd_aggregation_{position}"
            self._sums[key] = tf.Variable(zeros, trainable=False, name=name)
        return self._sums.get(key)

    @do_not_convert
    def compute_gradients(self, grads: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Adds the gradients. After the last pass of a step the reduced sums (or means), before it
        the sums so far."""
        dense = [self.dense(g) for g in grads]
        with tf.init_scope():  # they live longer than the graph that needs them first
            if self.counter is None:
                self.counter = tf.Variable(
                    0, trainable=False, dtype=tf.int32, name="hvd_aggregation_counter"
                )
            sums = [
                self._sum_of(g, v, i) for i, (g, v) in enumerate(zip(dense, variables, strict=True))
            ]
        present = [i for i, held in enumerate(sums) if held is not None]
        with tf.control_dependencies(
            [sums[i].assign_add(dense[i]) for i in present if dense[i] is not None]
        ):
            passes = self.counter.assign_add(1)
        with tf.control_dependencies([passes]):
            totals = [None if held is None else held.read_value() for held in sums]

        def reduced() -> list[Any]:
            results = self._allreduce([self.result(total) for total in totals], variables)
            sums_of_all = [self.dense(result) for result in results if result is not None]
            # What was read may be the sums' own memory: they are cleared once it is not needed any
            # more.
            with tf.control_dependencies(sums_of_all):
                cleared = [sums[i].assign(tf.zeros_like(sums[i])) for i in present]
            with tf.control_dependencies([*cleared, self.counter.assign(0)]):
                return [tf.identity(result) for result in sums_of_all]

        outcome = tf.cond(
            passes >= self.passes, reduced, lambda: [tf.identity(totals[i]) for i in present]
        )
        results = dict(zip(present, outcome, strict=True))
        return [results.get(i) for i in range(len(totals))]

    @do_not_convert
    def apply_gradients(
        self, apply: Callable[[], Any], otherwise: Callable[[], Any] | None = None
    ) -> Any:
        """Runs `apply` only after a pass that reduced; after others `otherwise`."""

        def done(closure: Callable[[], Any] | None) -> Callable[[], Any]:
            def run() -> Any:
                result = closure() if closure is not None else None
                with tf.control_dependencies(
                    [] if result is None or tf.executing_eagerly() else [result]
                ):
                    return tf.constant(closure is apply)

            return run

        return tf.cond(tf.equal(self.counter, 0), done(apply), done(otherwise))
