"""1-bit Adam for optax: once the second moment has converged, ranks exchange the signs of their
momentum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import tree_map

from hvdlite.adapter import names
from hvdlite.adapter.at_once.reduction import reduced_if
from hvdlite.adapter.compression import CompressionAdapter
from hvdlite.adapter.compression.codecs import sign
from hvdlite.adapter.step import NO_COMPRESSION, Options
from hvdlite.base.ops import Average
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.jax.compression.algebra import algebra
from hvdlite.jax.compression.backend import BACKEND
from hvdlite.jax.compression.transformation import Compressing
from hvdlite.jax.gradients import Transformation

Array = Any
Tree = Any

__all__ = ["OneBitAdam"]


class OneBitAdamState(NamedTuple):
    count: Array  # steps made
    mu: Tree
    nu: Tree
    memory: tuple[Any, ...]  # of the signs, by leaf
    ranks: Array  # those that the memory belongs to


@dataclass(frozen=True)
class _Adam:
    learning_rate: Any
    b1: float
    b2: float
    eps: float
    weight_decay: float
    freeze_step: int
    compressing: Compressing

    def init(self, params: Tree) -> OneBitAdamState:
        zeros = tree_map(jnp.zeros_like, params)
        _, memory, ranks = self.compressing.init((), params)
        return OneBitAdamState(jnp.int32(0), zeros, zeros, memory, ranks)

    def update(
        self, gradients: Tree, state: OneBitAdamState, params: Tree = None
    ) -> tuple[Tree, OneBitAdamState]:
        if self.weight_decay and params is None:
            raise ValueError("weight_decay needs the parameters: update(gradients, state, params)")
        _, mu, nu, *kept = state
        is_frozen = state.count >= self.freeze_step
        leaves, structure = jax.tree_util.tree_flatten(gradients)
        dense = replace(self.compressing.options, compression=NO_COMPRESSION)
        leaves = reduced_if(jnp.logical_not(is_frozen), dense, BACKEND, leaves, leaves)
        gradients = jax.tree_util.tree_unflatten(structure, leaves)
        if self.weight_decay:
            gradients = tree_map(lambda g, p: g + self.weight_decay * p, gradients, params)
        mu = tree_map(lambda m, g: self.b1 * m + (1 - self.b1) * g, mu, gradients)
        squares = tree_map(lambda v, g: self.b2 * v + (1 - self.b2) * g * g, nu, gradients)
        nu = tree_map(partial(jnp.where, is_frozen), nu, squares)

        def signs(given: list[Any]) -> list[Any]:
            mu = _where_gradients_were(given[0], nu)
            if self.compressing.options.takes_part():
                mu, *given[1:] = self.compressing.reduced(mu, *given[1:])
            return [_where_gradients_were(mu, nu), *given[1:]]

        mu, *kept = BACKEND.either(is_frozen, signs, [mu, *kept])
        count = state.count + 1
        rate = self.learning_rate
        rate = rate(state.count) if callable(rate) else rate
        # The second moment has seen no more steps than these.
        seen = jnp.minimum(count, self.freeze_step)

        def way(first: Array, second: Array) -> Array:
            size = jnp.sqrt(second / (1 - self.b2**seen)) + self.eps
            return (-rate / (1 - self.b1**count) * first / size).astype(first.dtype)

        return tree_map(way, mu, nu), OneBitAdamState(count, mu, nu, *kept)


def _where_gradients_were(mu: Tree, nu: Tree) -> Tree:
    """Where no gradient has ever been, a sign would make one."""
    return tree_map(lambda m, v: jnp.where(v > 0, m, jnp.zeros_like(m)), mu, nu)


def OneBitAdam(learning_rate: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8,
               weight_decay: float = 0.0, freeze_step: int = 1000,
               process_set: ProcessSet = global_process_set) -> Transformation:  # fmt: skip
    """Tang et al. 2021, as an optax transformation. For `freeze_step` steps it is optax.adam over
    the gradients of all ranks. Then the second moment stays as it is, and ranks average their first
    moments by 1 bit per number, with error feedback.

    It communicates by itself in update(), at once or inside jax.jit: it is not for
    hvd.distributed(). `learning_rate` may be a schedule. `freeze_step` is usually 15 to 20 % of all
    steps. Leaves of one dimension stay dense.
    """
    if freeze_step < 1:
        raise ValueError(f"freeze_step={freeze_step} is not possible: Adam has to begin")
    compression = CompressionAdapter(sign(algebra))
    options = Options(Average, 1.0, 1.0, compression, process_set=process_set,
                      scope=f"{names.scope()}onebit.")  # fmt: skip
    assert compression.method is not None
    adam = _Adam(learning_rate, b1, b2, eps, weight_decay, freeze_step,
                 Compressing(compression.method, options))  # fmt: skip
    return Transformation(adam.init, adam.update)
