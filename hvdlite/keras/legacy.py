"""What DistributedOptimizer adds to the class of a tf_keras optimizer, of both generations.

tf_keras asks its optimizers to "aggregate" gradients before they are applied, and its LossScaleOptimizer asks the optimizer
inside before it decides whether the step is taken: this is the place to reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from hvdlite.adapter.step import Local, Options
from hvdlite.keras.backends.tensorflow import BACKEND
from hvdlite.keras.reduction import reduced

Pairs = Sequence[tuple[Any, Any]]  # (gradient, variable)

_SPARSE = "backward_passes_per_step > 1 needs sparse_as_dense=True for sparse gradients (tf.IndexedSlices)"


class _Distributed:
    """Its own data begin with _hvd. None of them is saved."""

    _HAS_AGGREGATE_GRAD = True  # Horovod's promise to its callers
    _hvd: Options
    _hvd_local_layers: Sequence[Any]
    _hvd_reduced = False  # by compute_gradients(), for the apply_gradients() to come

    def register_local_var(self, var: Any) -> None:
        """From now on the gradient of this variable stays on its rank."""
        self._hvd_local.variables.append(var)

    @property
    def _hvd_local(self) -> Local:
        local: Local = self.__dict__.setdefault("_hvd_local_variables", Local(self._hvd_local_layers))
        return local

    @property
    def _agg_helper(self) -> Accumulation | None:
        """Where gradients wait for others; Horovod's name for it."""
        if self._hvd.passes == 1:
            return None
        # Not attributes in the usual way: tf_keras would save them.
        if "_hvd_accumulation" not in self.__dict__:
            self.__dict__["_hvd_accumulation"] = Accumulation(self._hvd)
        helper: Accumulation = self.__dict__["_hvd_accumulation"]
        return helper

    def _allreduce(self, grads: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients of all ranks."""
        return reduced(self._hvd, BACKEND, grads, variables, self._hvd_local.ids())

    def _hvd_aggregated(self, pairs: Pairs) -> list[tuple[Any, Any]]:
        pairs = list(pairs)
        if self._hvd_reduced or not pairs:
            self._hvd_forget()
            return pairs
        gradients, variables = zip(*pairs, strict=True)
        helper = self._agg_helper
        if helper is None:
            results = self._allreduce(gradients, variables)
        else:
            results = helper.aggregated(gradients, variables, self._allreduce)
        return list(zip(results, variables, strict=True))

    def _hvd_computed(self, pairs: Pairs) -> list[tuple[Any, Any]]:
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

        def step() -> tf.Tensor:
            apply()
            return tf.constant(0)

        def wait() -> tf.Tensor:
            self.iterations.assign_add(1)  # type: ignore[attr-defined]
            return tf.constant(0)

        tf.cond(helper.have_travelled(), step, wait)
        return self.iterations  # type: ignore[attr-defined]


class Distributed(_Distributed):
    """For tf_keras.optimizers.*"""

    def aggregate_gradients(self, grads_and_vars: Pairs) -> list[tuple[Any, Any]]:
        """The gradients of all ranks."""
        return self._hvd_aggregated(grads_and_vars)

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[tuple[Any, Any]]:
        """The gradients of all ranks; apply_gradients() does not reduce them again."""
        return self._hvd_computed(super().compute_gradients(loss, var_list, tape))  # type: ignore[misc]

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        del grad_loss
        return self.compute_gradients(loss, var_list, tape)

    def apply_gradients(
        self, grads_and_vars: Pairs, name: str | None = None, skip_gradients_aggregation: bool = False, **kwargs: Any
    ) -> Any:
        """One step with the gradients of all ranks."""
        if not skip_gradients_aggregation and kwargs.pop("experimental_aggregate_gradients", True):
            grads_and_vars = self.aggregate_gradients(grads_and_vars)
        self._hvd_forget()
        pairs = list(grads_and_vars)
        apply = super().apply_gradients  # type: ignore[misc]
        if pairs and self._agg_helper is not None:
            with tf.init_scope():
                self.build([variable for _, variable in pairs])  # type: ignore[attr-defined]
        return self._hvd_apply(lambda: apply(pairs, name=name, skip_gradients_aggregation=True, **kwargs))


class DistributedOfOld(_Distributed):
    """For tf_keras.optimizers.legacy.*"""

    def _aggregate_gradients(self, grads_and_vars: Pairs) -> list[tuple[Any, Any]]:
        return self._hvd_aggregated(grads_and_vars)

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[tuple[Any, Any]]:
        """The gradients of all ranks; apply_gradients() does not reduce them again."""
        return self._compute_gradients(loss, var_list, tape=tape)

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        return self._hvd_computed(super()._compute_gradients(loss, var_list, grad_loss, tape))  # type: ignore[misc]

    def get_gradients(self, loss: Any, params: Sequence[Any]) -> list[Any]:
        """The gradients of all ranks, in a graph of TensorFlow 1."""
        gradients = super().get_gradients(loss, params)  # type: ignore[misc]
        return [gradient for gradient, _ in self._hvd_computed(list(zip(gradients, params, strict=True)))]

    def apply_gradients(
        self, grads_and_vars: Pairs, name: str | None = None, experimental_aggregate_gradients: bool = True
    ) -> Any:
        """One step with the gradients of all ranks."""
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        if experimental_aggregate_gradients:
            pairs = self._aggregate_gradients(self._transform_unaggregated_gradients(pairs))  # type: ignore[attr-defined]
        self._hvd_forget()
        apply = super().apply_gradients  # type: ignore[misc]
        if self._agg_helper is not None:
            with tf.init_scope():
                self._create_all_weights([variable for _, variable in pairs])  # type: ignore[attr-defined]
        return self._hvd_apply(lambda: apply(pairs, name=name, experimental_aggregate_gradients=False))


class Accumulation:
    """backward_passes_per_step: gradients add up here. As accumulation.py, on variables of TensorFlow."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._sums: dict[int, Any] = {}  # by the id of the variable
        with tf.init_scope():
            #: how many passes are in the sums
            self.counter = tf.Variable(0, trainable=False, name="passes")

    def have_travelled(self) -> Any:
        """After aggregated(): whether it has returned the gradients of all ranks."""
        return tf.equal(self.counter, 0)

    def aggregated(
        self,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        allreduce: Callable[[Sequence[Any], Sequence[Any]], list[Any]],
    ) -> list[Any]:
        """The reduced sums with the last pass, zeros with the others. A gradient that is None stays so."""
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        held = [self._sum_for(variables[i]) for i in present]
        totals = [total + self._dense(gradients[i]) for total, i in zip(held, present, strict=True)]

        def communicate() -> list[Any]:
            passes = self._options.passes if self._options.average_passes else 1
            results = allreduce([t / passes if passes > 1 else t for t in totals], [variables[i] for i in present])
            results = [tf.identity(result) for result in results]
            with tf.control_dependencies(results):
                for variable in held:
                    variable.assign(tf.zeros_like(variable))
                self.counter.assign(0)
            return results

        def wait() -> list[Any]:
            for variable, total in zip(held, totals, strict=True):
                variable.assign(total)
            self.counter.assign_add(1)
            return [tf.zeros_like(total) for total in totals]

        outcome = tf.cond(tf.equal(self.counter, self._options.passes - 1), communicate, wait)
        results: list[Any] = [None] * len(gradients)
        for i, result in zip(present, outcome, strict=True):
            results[i] = result
        return results

    def _sum_for(self, variable: Any) -> Any:
        if id(variable) not in self._sums:
            with tf.init_scope():
                zeros = tf.zeros(variable.shape, variable.dtype)
                self._sums[id(variable)] = tf.Variable(zeros, trainable=False, name="sum_of_gradients")
        return self._sums[id(variable)]

    def _dense(self, gradient: Any) -> Any:
        if isinstance(gradient, tf.IndexedSlices) and not self._options.sparse_as_dense:
            raise ValueError(_SPARSE)
        return tf.convert_to_tensor(gradient)


def mixin_for(optimizer: Any) -> Any:
    """The class that reduces for this generation of optimizers."""
    if isinstance(optimizer, tf_keras.optimizers.legacy.Optimizer):
        return DistributedOfOld
    if isinstance(optimizer, tf_keras.optimizers.Optimizer):
        return Distributed
    raise TypeError(f"expected an optimizer of tf_keras.optimizers, got {type(optimizer).__name__}")
