"""hvd.distributed() with a compression that has a memory: the memory is part of the optimizer's
state, so that a step stays a function of its arguments and may be compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hvdlite.adapter.at_once.reduction import RoundBatcher
from hvdlite.adapter.compression import Method
from hvdlite.adapter.compression.methods import State, rounds_of
from hvdlite.adapter.compression.rounds import factor_of, finish, run_together
from hvdlite.adapter.step import Options
from hvdlite.jax.compression.algebra import ALGEBRA
from hvdlite.jax.compression.backend import BACKEND
from hvdlite.jax.framework import float0

Array = Any
Tree = Any


class CompressedState(NamedTuple):
    """The state of an optimizer whose gradients travel compressed."""

    inner: Any
    memory: tuple[State, ...]  # of each leaf of the parameters
    ranks: Array  # those that the memory belongs to


@dataclass(frozen=True)
class Compressing:
    """A method at work on the gradients of one optimizer."""

    method: Method
    options: Options

    def init(self, inner: Any, params: Tree) -> CompressedState:
        self.options.compression.check_momentum(_momentum_in(inner))
        memory = []
        if self.options.takes_part():
            self.method.decide_now(self.options.process_set)
        for name, leaf in _named(params):
            part = self.method.part(name, leaf.shape)
            memory.append(part.begin(ALGEBRA, jnp.zeros(leaf.size, jnp.float32)))
        return CompressedState(inner, tuple(memory), jnp.int32(self._ranks()))

    def reduced(
        self, gradients: Tree, memory: Sequence[State], ranks_then: Array
    ) -> tuple[Tree, tuple[State, ...], Array]:
        """The gradients of all ranks, and the new memory. That of another number of ranks counts
        as zeros."""
        self.method.check_compiled()
        self.method.decide_now(self.options.process_set)
        ranks = self._ranks()
        same = jnp.equal(ranks_then, ranks)
        leaves, structure = jax.tree_util.tree_flatten(gradients)
        names = [name for name, _ in _named(gradients)]
        places = [i for i, leaf in enumerate(leaves) if getattr(leaf, "dtype", None) != float0]
        running = []
        for i in places:
            part = self.method.part(names[i], leaves[i].shape)
            flat = ALGEBRA.flat(leaves[i])
            first = part.begin(ALGEBRA, flat)
            kept = {**first, **memory[i]}  # auto may choose another way than a checkpoint has
            state = {key: jnp.where(same, kept[key], first[key]) for key in first}
            running.append(rounds_of(part, ALGEBRA, flat, state, ranks))
        scale = factor_of(self.options.op, self.options.prescale * self.options.postscale, ranks)
        batcher, after = RoundBatcher(BACKEND, self.options, {}), list(memory)
        for i, (total, state) in zip(places, run_together(running, batcher.send), strict=True):
            leaves[i] = finish(ALGEBRA, total, scale, leaves[i])
            after[i] = state
        return jax.tree_util.tree_unflatten(structure, leaves), tuple(after), jnp.int32(ranks)

    def _ranks(self) -> int:
        return self.options.process_set.size() or 1


def _named(tree: Tree) -> list[tuple[str, Any]]:
    """The leaves with their places in the tree as names: encoder.0.kernel."""
    return [
        (".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))
                  for key in path), leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    ]  # fmt: skip


def _momentum_in(state: Any) -> dict[str, str]:
    """The fields in which optax keeps momentum."""
    if isinstance(state, tuple):
        fields = getattr(state, "_fields", ())
        found = {field: "(momentum)" for field in ("trace", "mu") if field in fields}
        for each in state:
            found |= _momentum_in(each)
        return found
    return {}
