"""Gradients added up over several backward passes, in variables, before they are reduced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from hvdlite.tensorflow.ops import do_not_convert

__all__ = ["LocalGradientAggregationHelper"]


class LocalGradientAggregationHelper:
    """Counts passes in a variable, so that it works in graphs, too: each `backward_passes_per_step`-th one reduces.

    `allreduce_func(grads, variables)` does the reduction.
    """

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
        sparse_as_dense: bool = False,
        average_aggregated_gradients: bool = False,
    ) -> None:
        if backward_passes_per_step < 1:
            raise ValueError("backward_passes_per_step must be at least 1")
        self.backward_passes_per_step = backward_passes_per_step
        self.sparse_as_dense = sparse_as_dense
        self.average_aggregated_gradients = average_aggregated_gradients
        self._allreduce = allreduce_func
        #: passes since the last reduction
        self.counter: Any = None
        self._sums: list[Any] = []  # by position; None where there is no gradient

    def _make_variables(self, grads: Sequence[Any]) -> None:
        if self.counter is not None:
            return
        with tf.init_scope():  # they live longer than the graph that needs them first
            self.counter = tf.Variable(0, trainable=False, dtype=tf.int32, name="hvd_aggregation_counter")
            self._sums = [
                None
                if g is None
                else tf.Variable(tf.zeros(g.shape, g.dtype), trainable=False, name=f"hvd_aggregation_{i}")
                for i, g in enumerate(grads)
            ]

    @do_not_convert
    def compute_gradients(self, grads: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Adds the gradients. After the last pass of a step the reduced sums (or means), before it the sums so far."""
        dense = [self._dense(g) for g in grads]
        self._make_variables(dense)
        added = [s.assign_add(g) for s, g in zip(self._sums, dense, strict=True) if g is not None]
        with tf.control_dependencies(added):
            passes = self.counter.assign_add(1)
        with tf.control_dependencies([passes]):
            sums = [None if s is None else s.read_value() for s in self._sums]

        def reduce() -> list[Any]:
            share = self.backward_passes_per_step if self.average_aggregated_gradients else 1
            scaled = [None if s is None else s / tf.cast(share, s.dtype) for s in sums]
            reduced = [self._dense(g) for g in self._allreduce(scaled, variables) if g is not None]
            # What was read may be the variables' own memory: they are cleared when it is not needed any more.
            with tf.control_dependencies(reduced):
                cleared = [s.assign(tf.zeros(s.shape, s.dtype)) for s in self._sums if s is not None]
            with tf.control_dependencies([*cleared, self.counter.assign(0)]):
                return [tf.identity(g) for g in reduced]

        present = [s for s in sums if s is not None]
        results = iter(
            tf.cond(passes >= self.backward_passes_per_step, reduce, lambda: list(map(tf.identity, present)))
        )
        return [None if s is None else next(results) for s in sums]

    @do_not_convert
    def apply_gradients(self, apply: Callable[[], Any], otherwise: Callable[[], Any] | None = None) -> Any:
        """Runs `apply` only after a pass that reduced; after others `otherwise`."""

        def done(closure: Callable[[], Any] | None) -> Callable[[], Any]:
            def run() -> Any:
                result = closure() if closure is not None else None
                with tf.control_dependencies([] if result is None or tf.executing_eagerly() else [result]):
                    return tf.constant(closure is apply)

            return run

        return tf.cond(tf.equal(self.counter, 0), done(apply), done(otherwise))

    def _dense(self, gradient: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self.sparse_as_dense:
            raise ValueError(
                "IndexedSlices are not supported when `backward_passes_per_step` > 1 and `sparse_as_dense` is False: pass "
                "sparse_as_dense=True"
            )
        return tf.convert_to_tensor(gradient)
