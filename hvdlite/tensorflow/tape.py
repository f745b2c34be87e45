"""tf.GradientTape whose gradient() is that of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from hvdlite.adapter.at_once import reduction
from hvdlite.adapter.step import Local, Members, Options, layers_of, options_of
from hvdlite.base.ops import Average
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.tensorflow.compression import Compression
from hvdlite.tensorflow.gradients import BACKEND, scope_of
from hvdlite.tensorflow.ops import do_not_convert, name_scope

__all__ = ["DistributedGradientTape", "PartialDistributedGradientTape"]


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


class _Distributed:
    """Over a tape of TensorFlow's."""

    _hvd: Distribution

    def register_local_source(self, source: Any) -> None:
        """The gradient of this variable stays this rank's own, divided by the number of ranks
        (scale_local_gradients)."""
        self._hvd.local.variables.append(source)

    @do_not_convert
    def gradient(self, target: Any, sources: Any, output_gradients: Any = None,
                 use_generic_names: bool = False,
                 unconnected_gradients: Any = tf.UnconnectedGradients.NONE) -> Any:  # fmt: skip
        """As that of the tape, reduced. `use_generic_names`: names do not depend on the graph's
        name scope."""
        plain = super().gradient(target, sources, output_gradients, unconnected_gradients)  # type: ignore[misc]
        variables = tf.nest.flatten(sources)
        grads = tf.nest.flatten(plain)
        with name_scope(use_generic_names):
            reduced = self._hvd.reduced(grads, variables, "DistributedGradientTape")
        return tf.nest.pack_sequence_as(sources, reduced)

    def get_local_and_global_gradients(
        self, target: Any, sources: Any, output_gradients: Any = None,
        use_generic_names: bool = False,
    ) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:  # fmt: skip
        """Pairs of a variable and its gradient: those of local sources, and all others."""
        variables = tf.nest.flatten(sources)
        grads = tf.nest.flatten(self.gradient(target, sources, output_gradients, use_generic_names))
        pairs = list(zip(variables, grads, strict=True))
        mine = self._hvd.local.ids()
        local = [pair for pair in pairs if id(pair[0]) in mine]
        return local, [pair for pair in pairs if id(pair[0]) not in mine]


def DistributedGradientTape(gradtape: Any, device_dense: str = "", device_sparse: str = "",
                            compression: Any = Compression.none, sparse_as_dense: bool = False,
                            op: int = Average, gradient_predivide_factor: float = 1.0,
                            num_groups: int = 0, groups: Any = None,
                            process_set: ProcessSet = global_process_set,
                            scale_local_gradients: bool = True) -> Any:  # fmt: skip
    """The tape, with a gradient() that is reduced among the ranks. Before, while or after the given
    one records."""
    base = type(gradtape)
    kind: Any = type(base.__name__, (_Distributed, base), {"__module__": __name__})
    tape = kind.__new__(kind)
    tape.__dict__.update(gradtape.__dict__)
    options = options_of(op, gradient_predivide_factor, compression, sparse_as_dense, num_groups,
                         groups, process_set, scale_local_gradients, members=VARIABLES)  # fmt: skip
    tape._hvd = Distribution(options)
    return tape


def PartialDistributedGradientTape(gradtape: Any, device_dense: str = "", device_sparse: str = "",
                                   compression: Any = Compression.none,
                                   sparse_as_dense: bool = False, op: int = Average,
                                   gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                                   groups: Any = None, process_set: ProcessSet = global_process_set,
                                   local_layers: Any = None,
                                   scale_local_gradients: bool = True) -> Any:  # fmt: skip
    """DistributedGradientTape() for a model some of whose layers are this rank's own: a layer, or a
    list of layers."""
    layers = layers_of(local_layers, lambda layer: hasattr(layer, "trainable_weights"))
    tape = DistributedGradientTape(gradtape, device_dense, device_sparse, compression,
                                   sparse_as_dense, op, gradient_predivide_factor, num_groups,
                                   groups, process_set, scale_local_gradients)  # fmt: skip
    for layer in layers:
        tape._hvd.local.variables += layer.trainable_weights
    return tape
