"""DistributedOptimizer and its relatives: an optimizer of the user's class whose gradients are
those of all ranks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hvdlite.adapter import names
from hvdlite.adapter.step import Options, layers_of, options_of
from hvdlite.adapter.strategy import NO_LAYERS, OF_TORCH, Strategy, Support, apply
from hvdlite.base.ops import Average, Sum
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.job.basics import is_initialized, size
from hvdlite.keras.backends import chosen
from hvdlite.keras.compression import Compression
from hvdlite.keras.elastic import gate
from hvdlite.keras.flavour import KERAS, LEGACY
from hvdlite.keras.strategies.lars import replacement
from hvdlite.keras.strategies.local_steps import DiLoCo, LocalSGD
from hvdlite.keras.wrapping import refuse_twice, take_variables, with_loss_scaling

_SUPPORT = Support(
    "hvdlite.keras", Compression, {"local_sgd": LocalSGD, "diloco": DiLoCo}, replacement,
    lacking={"sufficient_factors": NO_LAYERS}, lacking_options=OF_TORCH,
)  # fmt: skip


def DistributedOptimizer(optimizer: Any, name: str | None = None, device_dense: str = "",
                         device_sparse: str = "", compression: Any = Compression.none,
                         sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
                         op: int = Average, num_groups: int = 0, groups: Any = None, *,
                         backward_passes_per_step: int = 1,
                         average_aggregated_gradients: bool = False,
                         process_set: ProcessSet = global_process_set,
                         scale_local_gradients: bool = True,
                         strategy: Strategy | None = None) -> Any:  # fmt: skip
    """The optimizer, with gradients averaged (or summed) over all ranks before each step.

    It is the same object: its class is a subclass of the one it had, under the same name. See
    docs/guides/keras.md. `name`, `device_dense` and `device_sparse` are accepted for Horovod's
    sake. `strategy` says several arguments at once, and local steps and large batches: see
    docs/guides/strategy.md.
    """
    if strategy is not None:
        return apply(strategy, _SUPPORT, DistributedOptimizer, optimizer, name=name,
                     device_dense=device_dense, device_sparse=device_sparse,
                     compression=compression, sparse_as_dense=sparse_as_dense,
                     gradient_predivide_factor=gradient_predivide_factor, op=op,
                     num_groups=num_groups, groups=groups,
                     backward_passes_per_step=backward_passes_per_step,
                     average_aggregated_gradients=average_aggregated_gradients,
                     process_set=process_set,
                     scale_local_gradients=scale_local_gradients)  # fmt: skip
    del name, device_dense, device_sparse
    options = options_of(op, gradient_predivide_factor, compression, sparse_as_dense, num_groups,
                         groups, process_set, scale_local_gradients, backward_passes_per_step,
                         average_aggregated_gradients)  # fmt: skip
    return distribute(optimizer, options)


def PartialDistributedOptimizer(optimizer: Any, name: str | None = None, device_dense: str = "",
                                device_sparse: str = "", compression: Any = Compression.none,
                                sparse_as_dense: bool = False,
                                gradient_predivide_factor: float = 1.0, op: int = Average,
                                backward_passes_per_step: int = 1,
                                average_aggregated_gradients: bool = False, groups: Any = None,
                                process_set: ProcessSet = global_process_set,
                                local_layers: Any = None,
                                scale_local_gradients: bool = True) -> Any:  # fmt: skip
    """DistributedOptimizer() whose gradients of `local_layers` stay on their rank.

    They are divided by the number of ranks, unless scale_local_gradients=False.
    """
    del name, device_dense, device_sparse
    options = options_of(op, gradient_predivide_factor, compression, sparse_as_dense, 0, groups,
                         process_set, scale_local_gradients, backward_passes_per_step,
                         average_aggregated_gradients)  # fmt: skip
    layers = layers_of(local_layers, lambda layer: isinstance(layer, KERAS.layers.Layer))
    return distribute(optimizer, options, layers)


def load_model(filepath: Any, custom_optimizers: Any = None, custom_objects: Any = None,
               compression: Any = Compression.none, legacy_opts: bool = False) -> Any:  # fmt: skip
    """keras.models.load_model(), with the optimizer distributed again and its state kept.

    `custom_optimizers` are optimizer classes that the file needs and Keras does not know;
    `legacy_opts` is accepted for Horovod's sake.
    """
    del legacy_opts
    known = {kind.__name__: kind for kind in custom_optimizers or ()}
    known.update(custom_objects or {})
    model = KERAS.models.load_model(filepath, custom_objects=known)
    if getattr(model, "optimizer", None) is not None:
        model.optimizer = DistributedOptimizer(model.optimizer, compression=compression)
    return model


def distribute(optimizer: Any, options: Options, local_layers: Sequence[Any] = ()) -> Any:
    """Gives the optimizer a class that reduces gradients."""
    _check(options)
    refuse_twice(optimizer)
    options.compression.check_momentum(_momentum_of(optimizer))
    options = replace(options, scope=names.scope())
    chosen()  # the backend's adapter is loaded now, and not while a step is being traced
    if not LEGACY and isinstance(optimizer, KERAS.optimizers.Optimizer):
        from hvdlite.keras.distributed import Distributed

        optimizer = with_loss_scaling(optimizer)
        _extend(optimizer, Distributed, options, local_layers)
        if optimizer.built:
            take_variables(optimizer)
            optimizer._hvd_accumulate()
    elif "tf_keras" in sys.modules:
        from hvdlite.keras import legacy

        # Its LossScaleOptimizer asks the one inside.
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        _extend(inner, legacy.mixin_for(inner), options, local_layers)
    else:
        raise TypeError(
            f"expected an optimizer of {KERAS.__name__}.optimizers, got {type(optimizer).__name__}"
        )
    return optimizer


def _check(options: Options) -> None:
    """A ValueError with a sentence for what cannot be."""
    if not is_initialized():
        size()  # says that hvd.init() is missing
    if options.op not in (Average, Sum):
        raise ValueError(
            f"op={options.op} is not possible in a Keras optimizer, only hvd.Average and hvd.Sum: "
            "for Adasum use hvdlite.torch, or hvd.allreduce"
        )
    if options.compression.communicate is not None:
        raise ValueError(
            "a compressor with communicate() sends gradients itself, which a compiled Keras step "
            "cannot: leave communicate() out, or train with hvdlite.torch"
        )


def _momentum_of(optimizer: Any) -> dict[str, Any]:
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    found = {key: getattr(inner, key, None) for key in ("momentum", "beta_1")}
    return {key: value for key, value in found.items() if isinstance(value, float) and value}


def _extend(optimizer: Any, mixin: type, options: Options, local_layers: Sequence[Any]) -> None:
    base = type(optimizer)
    # Under the name and module of the one that it had: these are what a file says, which loads
    # without hvdlite then.
    body = {key: getattr(base, key) for key in ("__module__", "__qualname__", "__doc__")}
    body |= {"_hvd": options, "_hvd_local_layers": local_layers}
    kind = type(base.__name__, (mixin, *gate.bases(), base), body)
    optimizer.__class__ = kind  # and not a copy: it may have slots already
