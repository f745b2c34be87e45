"""Training by given gradients with hvdlite.jax and optax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import hvdlite.jax as hvd
from checks import runs
from checks.runs import SHAPES, Weights
from hvdlite.adapter.local.schedule import Count


class JaxRun(runs.Run):
    modes = ("at once", "compiled")
    modes_of_conditions = modes_by_time = ("compiled", "at once")
    mode = "compiled"
    momenta = ("trace", "mu")
    trials = 0
    has_passes = False

    def __init__(
        self, inner: Any, wrap: str = "DistributedOptimizer", *, mode: str = "",
        widest: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        if wrap:
            wrap = "distributed" if wrap == "DistributedOptimizer" else wrap
            inner = getattr(hvd, wrap)(inner, **options)
        self.optimizer = inner
        self.params: Any = {key: jnp.zeros(shape) for key, shape in SHAPES.items()}
        self.state = inner.init(self.params)
        compiled = (mode or self.mode) == "compiled"
        self._step = jax.jit(self.step) if compiled else self.step
        sync = getattr(inner, "sync", None)
        # Averages by time wait for other ranks, which a compiled program cannot.
        timed = isinstance(options.get("every"), str)
        self._sync = jax.jit(sync) if sync and compiled and not timed else sync

    @staticmethod
    def sgd(rate: float, momentum: float = 0.0, nesterov: bool = False) -> Any:
        return optax.sgd(rate, momentum=momentum or None, nesterov=nesterov)

    @staticmethod
    def adam(rate: float, weight_decay: float = 0.0) -> Any:
        return optax.chain(optax.add_decayed_weights(weight_decay), optax.adam(rate))

    @staticmethod
    def onebit_adam(rate: float, **options: Any) -> Any:
        return hvd.OneBitAdam(rate, **options)

    @staticmethod
    def lars(rate: float) -> Any:
        def matrices(tree: Any) -> Any:
            return jax.tree_util.tree_map(lambda leaf: leaf.ndim > 1, tree)

        return optax.lars(rate, 0.01, trust_coefficient=0.1, trust_ratio_mask=matrices)

    @staticmethod
    def lamb(rate: float) -> Any:
        return optax.lamb(rate, weight_decay=0.01)

    def step(self, gradients: Any, state: Any, params: Any, samples: Any) -> tuple[Any, Any]:
        if hasattr(self.optimizer, "step"):  # a strategy's, which averages weights
            params, state = self.optimizer.step(gradients, state, params, samples=samples)
            return params, state
        updates, state = self.optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    def train(self, gradients: Sequence[Weights], samples: float = 1.0) -> None:
        for gradient in gradients:
            given = {key: jnp.asarray(value, jnp.float32) for key, value in gradient.items()}
            self.params, self.state = self._step(given, self.state, self.params, samples)
        jax.block_until_ready((self.params, self.state))

    def weights(self) -> Weights:
        return {key: np.asarray(value) for key, value in self.params.items()}

    def memory(self) -> dict[str, Weights]:
        """In the state, in the order of the tree's leaves; empty where nothing is compressed."""
        of_leaves = zip(sorted(SHAPES), self.state.memory, strict=True)
        return {
            name: {key: np.asarray(value) for key, value in of.items()}
            for name, of in of_leaves
            if of
        }

    def moments(self, order: int) -> Weights:
        names = {"nu"} if order == 2 else {"mu", "trace"}
        found = [
            value
            for path, value in jax.tree_util.tree_flatten_with_path(self.state)[0]
            if names & {getattr(step, "name", "") for step in path}
        ]
        return dict(zip(sorted(SHAPES), map(np.asarray, found), strict=True))

    def sync(self) -> None:
        self.params, self.state = self._sync(self.params, self.state)

    def count(self) -> Count:
        return Count(*map(float, self.state.counts))

    def outer(self) -> dict[str, Any]:
        pairs = (tuple(map(np.asarray, pair)) for pair in self.state.outer)
        return dict(zip(sorted(SHAPES), pairs, strict=True))
