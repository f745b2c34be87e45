"""Optimizers whose gradients are those of all ranks: TensorFlow 1's here, Keras' in
hvdlite.keras."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from hvdlite.adapter.step import Options, options_of
from hvdlite.adapter.strategy import KERAS_HAS_IT, NO_LAYERS, Strategy, Support, apply
from hvdlite.base.ops import Average
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.tensorflow.aggregation import LocalGradientAggregationHelper
from hvdlite.tensorflow.compression import Compression
from hvdlite.tensorflow.ops import do_not_convert
from hvdlite.tensorflow.tape import VARIABLES, Distribution

__all__ = ["DistributedOptimizer", "Strategy"]

_SUPPORT = Support("an optimizer of TensorFlow 1", Compression, tells_epochs=False,
             lacking={"sufficient_factors": NO_LAYERS, "local": KERAS_HAS_IT,
                      "large_batch": KERAS_HAS_IT})  # fmt: skip

# Horovod's name for the base of TensorFlow 1's optimizers.
_LegacyOptimizer: Any = tf.compat.v1.train.Optimizer


class _DistributedOptimizer(tf.compat.v1.train.Optimizer):  # type: ignore[misc]
    """Over an optimizer of TensorFlow 1, whose gradients it reduces between computing and applying
    them."""

    def __init__(
        self, optimizer: Any, name: str | None, use_locking: bool, options: Options
    ) -> None:
        super().__init__(use_locking, name or f"Distributed{type(optimizer).__name__}")
        self._optimizer = optimizer
        self._hvd = Distribution(options)
        self._agg_helper: LocalGradientAggregationHelper | None = None
        if options.passes > 1:
            if tf.executing_eagerly():
                raise ValueError(
                    "an optimizer of TensorFlow 1 adds passes up in graphs only: in eager mode "
                    "leave backward_passes_per_step out"
                )
            self._agg_helper = LocalGradientAggregationHelper(
                options.passes, self._allreduce_grads, options.sparse_as_dense,
                options.average_passes,
            )  # fmt: skip

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays this rank's own, divided by the number of ranks
        (scale_local_gradients)."""
        self._hvd.local.variables.append(var)

    def _allreduce_grads(self, grads: Any, variables: Any) -> list[Any]:
        return self._hvd.reduced(grads, variables, self._name)

    @do_not_convert
    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Those of the wrapped optimizer, reduced."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        grads, variables = [g for g, _ in pairs], [v for _, v in pairs]
        helper = self._agg_helper
        reduce = self._allreduce_grads if helper is None else helper.compute_gradients
        return list(zip(reduce(grads, variables), variables, strict=True))

    @do_not_convert
    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        helper = self._agg_helper
        if helper is None:
            return self._optimizer.apply_gradients(pairs, *args, **kwargs)
        # Whether this pass has reduced is known once the gradients are.
        with tf.control_dependencies([g for g, _ in pairs if g is not None]):
            return helper.apply_gradients(
                lambda: self._optimizer.apply_gradients(pairs, *args, **kwargs)
            )

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.variables(*args, **kwargs)


def _make_allreduce_grads_fn(name: str, device_dense: str = "", device_sparse: str = "",
                             compression: Any = Compression.none, sparse_as_dense: bool = False,
                             op: int = Average, gradient_predivide_factor: float = 1.0,
                             groups: Any = None, process_set: ProcessSet = global_process_set,
                             ) -> Callable[..., list[Any]]:  # fmt: skip
    """A function of gradients (and their variables, which `groups` needs) that gives those of all
    ranks, for programs with a training loop or an optimizer of their own. `name`: their scope; all
    ranks use the same."""
    how = Distribution(options_of(op, gradient_predivide_factor, compression, sparse_as_dense, 0,
                                  groups, process_set, members=VARIABLES))  # fmt: skip

    def allreduce_grads(grads: Sequence[Any], vars: Sequence[Any] | None = None) -> list[Any]:
        grads = list(grads)
        return how.reduced(grads, [None] * len(grads) if vars is None else list(vars), name)

    return allreduce_grads


def DistributedOptimizer(optimizer: Any, name: str | None = None, use_locking: bool = False,
                         device_dense: str = "", device_sparse: str = "",
                         compression: Any = Compression.none, sparse_as_dense: bool = False,
                         backward_passes_per_step: int = 1, op: int = Average,
                         gradient_predivide_factor: float = 1.0,
                         average_aggregated_gradients: bool = False, num_groups: int = 0,
                         groups: Any = None, process_set: ProcessSet = global_process_set,
                         scale_local_gradients: bool = True, *,
                         strategy: Strategy | None = None) -> Any:  # fmt: skip
    """The optimizer, with its gradients reduced among the ranks before they are applied.

    `strategy` says several arguments at once: see docs/guides/strategy.md.
    """
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        if strategy is not None:
            return apply(strategy, _SUPPORT, DistributedOptimizer, optimizer, name=name,
                         use_locking=use_locking, device_dense=device_dense,
                         device_sparse=device_sparse, compression=compression,
                         sparse_as_dense=sparse_as_dense,
                         backward_passes_per_step=backward_passes_per_step, op=op,
                         gradient_predivide_factor=gradient_predivide_factor,
                         average_aggregated_gradients=average_aggregated_gradients,
                         num_groups=num_groups, groups=groups, process_set=process_set,
                         scale_local_gradients=scale_local_gradients)  # fmt: skip
        options = options_of(op, gradient_predivide_factor, compression, sparse_as_dense,
                             num_groups, groups, process_set, scale_local_gradients,
                             backward_passes_per_step, average_aggregated_gradients,
                             members=VARIABLES)  # fmt: skip
        return _DistributedOptimizer(optimizer, name, use_locking, options)
    # Now, not above: it is made of this package.
    from hvdlite.tensorflow import keras

    distribute: Any = keras.DistributedOptimizer  # mypy sees the one that it replaces
    return distribute(optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
                      gradient_predivide_factor, op, backward_passes_per_step,
                      average_aggregated_gradients, num_groups, groups, process_set,
                      scale_local_gradients, strategy=strategy)  # fmt: skip
