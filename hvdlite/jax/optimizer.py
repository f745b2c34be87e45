"""hvd.distributed(): an optimizer of the optax kind whose gradients are averaged over all ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from hvdlite.adapter import names
from hvdlite.adapter.local import warm_up
from hvdlite.adapter.step import options_of
from hvdlite.adapter.strategy import NO_LAYERS, OF_TORCH, Strategy, Support, apply
from hvdlite.base.ops import Average, reduction_of
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.jax.compression import Compression
from hvdlite.jax.compression.transformation import CompressedState, Compressing
from hvdlite.jax.gradients import Transformation, allreduce_gradients
from hvdlite.jax.strategies import DiLoCo, LocalSGD
from hvdlite.job import basics

_SUPPORT = Support(
    "hvdlite.jax",
    Compression,
    {"local_sgd": LocalSGD, "diloco": DiLoCo},
    lacking={
        "sufficient_factors": NO_LAYERS,
        "large_batch": "an optax transformation cannot become another one. Write "
        "hvd.distributed(optax.lars(...)) or optax.lamb instead",
        "backward_passes_per_step": "put accumulation outside, as "
        "optax.MultiSteps(hvd.distributed(...), every_k_schedule=4)",
    },
    lacking_options=OF_TORCH,
    tells_epochs=False,
)


Tree = Any


def distributed(optimizer: Any, *, op: int = Average, compression: Any = Compression.none,
                gradient_predivide_factor: float = 1.0,
                process_set: ProcessSet = global_process_set,
                strategy: Strategy | None = None) -> Any:  # fmt: skip
    """`optimizer`, with gradients that are reduced before it sees them; its state and its `init`
    stay what they are, unless the compression has a memory, which becomes part of the state.

    It is anything with `init(params)` and `update(gradients, state, params)`. All gradients of an
    update travel together. Wrap what must see the same gradients on all ranks (clipping, for one)
    inside: hvd.distributed(optax.chain(clip, adam)).

    `strategy` says a compression, or local steps, with which the result is that of hvd.LocalSGD()
    or hvd.DiLoCo(): see docs/guides/strategy.md.
    """
    if strategy is not None:
        return apply(strategy, _SUPPORT, distributed, optimizer, op=op, compression=compression,
                     gradient_predivide_factor=gradient_predivide_factor,
                     process_set=process_set)  # fmt: skip
    options = options_of(op, gradient_predivide_factor, compression, process_set=process_set)
    options = replace(options, op=reduction_of(None, op), scope=names.scope())
    if options.compression.method is not None:
        return _remembering(optimizer, Compressing(options.compression.method, options))

    def update(gradients: Tree, state: Any, params: Tree = None, **extra: Any) -> Any:
        leaves, structure = jax.tree_util.tree_flatten(gradients)
        reduced = allreduce_gradients(leaves, options)
        return optimizer.update(
            jax.tree_util.tree_unflatten(structure, reduced), state, params, **extra
        )

    if hasattr(optimizer, "_replace"):  # optax's own types: what others ask of them stays true
        return optimizer._replace(update=update)
    return Transformation(optimizer.init, update)


def _remembering(optimizer: Any, compressing: Compressing) -> Any:
    """With a compression that has a memory: the state is a CompressedState."""

    def init(params: Tree) -> CompressedState:
        return compressing.init(optimizer.init(params), params)

    def update(gradients: Tree, state: Any, params: Tree = None, **extra: Any) -> Any:
        inner, *kept = state
        if compressing.options.takes_part():
            gradients, *kept = compressing.reduced(gradients, *kept)
        updates, inner = optimizer.update(gradients, inner, params, **extra)
        return updates, CompressedState(inner, *kept)

    if hasattr(optimizer, "_replace"):
        return optimizer._replace(init=init, update=update)
    return Transformation(init, update)


# ---- the learning rate of a large job, as a schedule of optax


def linear_warm_up(
    learning_rate: Any, steps: int, scale: float | None = None
) -> Callable[[Any], Any]:
    """A schedule that rises in the course of `steps` steps from `learning_rate`, which is that of
    one rank, to `scale` times as much (https://arxiv.org/abs/1706.02677).

    `scale` is the number of ranks unless you say otherwise; a compiled step keeps the one with
    which it was compiled. `learning_rate` may be a schedule itself.
    """

    def schedule(step: Any) -> Any:
        most = float(basics.size() if scale is None else scale)
        rate = learning_rate(step) if callable(learning_rate) else learning_rate
        return rate * warm_up.factor(step, steps, most, jnp)

    return schedule
