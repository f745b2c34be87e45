"""What DistributedOptimizer adds to the class of a tf_keras optimizer, of both generations.

tf_keras asks its optimizers to "aggregate" gradients before they are applied, and its
LossScaleOptimizer asks the optimizer inside before it decides whether the step is taken: this is
the place to reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from hvdlite.adapter.at_once.reduction import reduced
from hvdlite.adapter.compression import HasCompression
from hvdlite.adapter.step import HasLocal, Options
from hvdlite.keras.backends.tensorflow import BACKEND
from hvdlite.tensorflow.aggregation import LocalGradientAggregationHelper

Pair = tuple[Any, Any]  # (gradient, variable)
Pairs = Sequence[Pair]


class _Distributed(HasLocal, HasCompression):
    """Its own data begin with _hvd. None of them is saved."""

    _HAS_AGGREGATE_GRAD = True  # Horovod's promise to its callers
    _hvd: Options
    _hvd_reduced = False  # by compute_gradients(), for the apply_gradients() to come

    @property
    def _agg_helper(self) -> LocalGradientAggregationHelper | None:
        """What adds gradients up; Horovod's name for it."""
        options = self._hvd
        if options.passes == 1:
            return None
        # Not attributes in the usual way: tf_keras would save them.
        if "_hvd_accumulation" not in self.__dict__:
            self.__dict__["_hvd_accumulation"] = LocalGradientAggregationHelper(
                options.passes, self._allreduce, options.sparse_as_dense, options.average_passes
            )
        helper: LocalGradientAggregationHelper = self.__dict__["_hvd_accumulation"]
        return helper

    def _allreduce(self, grads: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients of all ranks."""
        return reduced(self._hvd, BACKEND, grads, variables, self._hvd_local.ids())

    def _hvd_aggregated(self, pairs: Pairs) -> list[Pair]:
        pairs = list(pairs)
        if self._hvd_reduced or not pairs:
            self._hvd_forget()
            return pairs
        gradients, variables = zip(*pairs, strict=True)
        helper = self._agg_helper
        reduce = self._allreduce if helper is None else helper.compute_gradients
        return list(zip(reduce(gradients, variables), variables, strict=True))

    def _hvd_computed(self, pairs: Pairs) -> list[Pair]:
        self._hvd_forget()  # the last step may not have been applied
        result = self._hvd_aggregated(pairs)
        self.__dict__["_hvd_reduced"] = True
        return result

    def _hvd_forget(self) -> None:
        """Gradients to come are not reduced, whatever the last ones were."""
        self.__dict__["_hvd_reduced"] = False

    def _hvd_apply(self, apply: Callable[[], Any]) -> Any:
        """Of passes that only add up gradients nothing is applied; but they are counted."""
        helper = self._agg_helper
        if helper is None:
            return apply()
        helper.apply_gradients(apply, lambda: self.iterations.assign_add(1))  # type: ignore[attr-defined]
        return self.iterations  # type: ignore[attr-defined]


class LegacyDistributed(_Distributed):
    """For tf_keras.optimizers.*"""

    def aggregate_gradients(self, grads_and_vars: Pairs) -> list[Pair]:
        """The gradients of all ranks."""
        return self._hvd_aggregated(grads_and_vars)

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[Pair]:
        """The gradients of all ranks; apply_gradients() does not reduce them again."""
        return self._hvd_computed(super().compute_gradients(loss, var_list, tape))  # type: ignore[misc]

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[Pair]:
        del grad_loss
        return self.compute_gradients(loss, var_list, tape)

    def apply_gradients(self, grads_and_vars: Pairs, name: str | None = None,
                        skip_gradients_aggregation: bool = False,
                        **kwargs: Any) -> Any:  # fmt: skip
        """One step with the gradients of all ranks."""
        if not skip_gradients_aggregation and kwargs.pop("experimental_aggregate_gradients", True):
            grads_and_vars = self.aggregate_gradients(grads_and_vars)
        self._hvd_forget()
        pairs = list(grads_and_vars)
        apply = super().apply_gradients  # type: ignore[misc]
        if pairs and self._agg_helper is not None:
            with tf.init_scope():
                self.build([variable for _, variable in pairs])  # type: ignore[attr-defined]
        return self._hvd_apply(
            lambda: apply(pairs, name=name, skip_gradients_aggregation=True, **kwargs)
        )


class DistributedOfOld(_Distributed):
    """For tf_keras.optimizers.legacy.*"""

    def _aggregate_gradients(self, grads_and_vars: Pairs) -> list[Pair]:
        return self._hvd_aggregated(grads_and_vars)

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[Pair]:
        """The gradients of all ranks; apply_gradients() does not reduce them again."""
        return self._compute_gradients(loss, var_list, tape=tape)

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[Pair]:
        return self._hvd_computed(super()._compute_gradients(loss, var_list, grad_loss, tape))  # type: ignore[misc]

    def get_gradients(self, loss: Any, params: Sequence[Any]) -> list[Any]:
        """The gradients of all ranks, in a graph of TensorFlow 1."""
        gradients = super().get_gradients(loss, params)  # type: ignore[misc]
        return [g for g, _ in self._hvd_computed(list(zip(gradients, params, strict=True)))]

    def apply_gradients(self, grads_and_vars: Pairs, name: str | None = None,
                        experimental_aggregate_gradients: bool = True) -> Any:  # fmt: skip
        """One step with the gradients of all ranks."""
        pairs = [pair for pair in grads_and_vars if pair[0] is not None]
        if experimental_aggregate_gradients:
            pairs = self._aggregate_gradients(self._transform_unaggregated_gradients(pairs))  # type: ignore[attr-defined]
        self._hvd_forget()
        apply = super().apply_gradients  # type: ignore[misc]
        if self._agg_helper is not None:
            with tf.init_scope():
                self._create_all_weights([variable for _, variable in pairs])  # type: ignore[attr-defined]
        return self._hvd_apply(
            lambda: apply(pairs, name=name, experimental_aggregate_gradients=False)
        )


def mixin_for(optimizer: Any) -> Any:
    """The class that reduces for this generation of optimizers."""
    if isinstance(optimizer, tf_keras.optimizers.legacy.Optimizer):
        return DistributedOfOld
    if isinstance(optimizer, tf_keras.optimizers.Optimizer):
        return LegacyDistributed
    raise TypeError(f"expected an optimizer of tf_keras.optimizers, got {type(optimizer).__name__}")
