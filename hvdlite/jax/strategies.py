"""Training that sends less than averaging each step's gradients: LocalSGD and DiLoCo, and 1-bit
Adam.

In LocalSGD and DiLoCo ranks make steps of their own and average weights from time to time. An optax
transformation returns what is to be added to the weights. A sum rounds, and on each rank
otherwise, so that ranks would not have the same after an average. So these have step(), which
returns the weights.

In 1-bit Adam ranks exchange the signs of their momentum, once the second moment has converged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from hvdlite.adapter.local import averaging, schedule
from hvdlite.adapter.local.averaging import Averager, Settings
from hvdlite.adapter.local.outer import Outer, OuterSGD
from hvdlite.adapter.local.schedule import Count
from hvdlite.adapter.step import NO_COMPRESSION, Options
from hvdlite.adapter.strategy import Strategy
from hvdlite.base.ops import Average
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.jax import trace
from hvdlite.jax.compression.algebra import algebra
from hvdlite.jax.compression.backend import BACKEND
from hvdlite.jax.compression.transformation import Compressing
from hvdlite.jax.gradients import Transformation

Tree = Any
Array = Any

__all__ = ["DiLoCo", "LocalSGD", "OneBitAdam", "OuterSGD", "Strategy"]


class LocalState(NamedTuple):
    """A pytree: part of a checkpoint, of donated arguments, of a JaxState."""

    inner: Any  # the optimizer's own state
    counts: Count
    outer: list[tuple[Array, Array]]  # of DiLoCo, by leaf: anchors and velocities


class LocalSteps:
    """What LocalSGD() and DiLoCo() return."""

    def __init__(self, optimizer: Any, settings: Settings) -> None:
        self._optimizer = optimizer
        self._settings = settings

    def init(self, params: Tree) -> LocalState:
        """The state before the first step."""
        plan, outer = self._settings.plan, []
        if self._settings.outer is not None:
            leaves = jax.tree_util.tree_leaves(params)
            outer = [(jnp.array(leaf), jnp.zeros_like(leaf)) for leaf in leaves]
        count = schedule.begin(plan, BACKEND.seconds() if plan.is_timed else 0.0)
        return LocalState(self._optimizer.init(params), _numbers(count), outer)

    def step(self, gradients: Tree, state: LocalState, params: Tree, *, samples: Any = 1.0,
             loss: Any = 0.0, **extra: Any) -> tuple[Tree, LocalState]:  # fmt: skip
        """One step of this rank, and an average of the weights if it is time: the new weights and
        the new state. At once, or inside jax.jit.

        `samples` weigh averages by time; `loss` is what adaptive=True needs. `extra` goes to the
        optimizer's update().
        """
        leaves, structure = jax.tree_util.tree_flatten(gradients)
        leaves = _Averager(self._settings, params, state).gradients(leaves, leaves)
        gradients = jax.tree_util.tree_unflatten(structure, leaves)
        updates, inner = self._optimizer.update(gradients, state.inner, params, **extra)
        params = jax.tree_util.tree_map(_added, params, updates)
        averager = _Averager(self._settings, params, state._replace(inner=inner))
        averager.stepped(samples, loss)
        return averager.result()

    def sync(self, params: Tree, state: LocalState) -> tuple[Tree, LocalState]:
        """Averages all weights now. All ranks call it: before they evaluate or save the model, at
        the end, and after hvd.join().

        Where averages go by time, it takes part in those of ranks that are still on their way, and
        is called outside of jax.jit.
        """
        if not self._settings.options.takes_part():
            return params, state
        if self._settings.plan.is_timed and trace.is_tracing():
            raise RuntimeError(
                "sync() of averages by time was called in a function that is being compiled "
                "(jax.jit), where it cannot wait for slower ranks: call it outside"
            )
        averager = _Averager(self._settings, params, state)
        averager.sync()
        return averager.result()


class _Leaf:
    """An array that is replaced in the course of a step."""

    def __init__(self, value: Array) -> None:
        self.value = value

    def assign(self, value: Array) -> None:
        self.value = value


class _Averager(Averager):
    ops = jnp
    knows_loss = True

    def __init__(self, settings: Settings, params: Tree, state: LocalState) -> None:
        leaves, self._structure = jax.tree_util.tree_flatten((params, state))
        self._leaves = list(map(_Leaf, leaves))
        params, state = jax.tree_util.tree_unflatten(self._structure, self._leaves)
        self._counts = state.counts
        weights, inner = map(jax.tree_util.tree_leaves, (params, state.inner))
        super().__init__(settings, BACKEND, weights, inner, state.outer)

    def result(self) -> tuple[Tree, LocalState]:
        """The weights and the state."""
        params, state = jax.tree_util.tree_unflatten(self._structure, self._values())
        return params, state

    def _values(self) -> list[Array]:
        return [leaf.value for leaf in self._leaves]

    def _assign(self, values: Sequence[Array]) -> None:
        for leaf, value in zip(self._leaves, values, strict=True):
            leaf.assign(value)

    @property
    def count(self) -> Count:
        return Count(*(leaf.value for leaf in self._counts))

    def keep(self, count: Count) -> None:
        for leaf, number in zip(self._counts, _numbers(count), strict=True):
            leaf.assign(number)

    def sizes(self) -> list[int]:
        return [leaf.value.nbytes for leaf in self.weights]

    def cast(self, value: Any, dtype: Any) -> Array:
        return jnp.asarray(value, dtype)

    def when(self, condition: Any, change: Callable[[], None]) -> None:
        def changed(values: Sequence[Array]) -> list[Array]:
            self._assign(values)
            change()
            return self._values()

        self._assign(BACKEND.either(condition, changed, self._values()))


def _added(parameter: Array, update: Array) -> Array:
    """As optax.apply_updates(). An update may be absent."""
    return parameter if update is None else jnp.asarray(parameter + update, parameter.dtype)


def _numbers(count: Count) -> Count:
    return Count(*(jnp.asarray(number, jnp.float32) for number in count))


def LocalSGD(optimizer: Any, every: int | str, start: int = 0, momentum: str = "local",
             adaptive: bool = False,
             process_set: ProcessSet = global_process_set) -> LocalSteps:  # fmt: skip
    """`optimizer`, an optax transformation, whose ranks average their weights after every so many
    steps instead of their gradients in each.

        optimizer = hvd.LocalSGD(optax.sgd(0.1), every=16)
        state = optimizer.init(params)
        params, state = optimizer.step(gradients, state, params)

    `every`: a number of steps, or a time such as "10s", after which each rank
    weighs as many samples as it has done. The first `start` steps are synchronous. `momentum`: what
    the optimizer remembers of gradients stays "local", or is averaged as well ("average"). With
    `adaptive` the interval shrinks from `every` with the root of the loss (AdaComm). See
    docs/guides/communicating-less.md.
    """
    plan = schedule.local_sgd(every, start, momentum, adaptive)
    settings = averaging.settings_of(plan, None, momentum == "average", process_set)
    return LocalSteps(optimizer, settings)


def DiLoCo(inner: Any, outer: Outer = OuterSGD(), every: int | str = 500, fragments: int = 1,  # noqa: B008
           process_set: ProcessSet = global_process_set) -> LocalSteps:  # fmt: skip
    """`inner`, an optax transformation, whose ranks make `every` steps of their own; then `outer`
    makes a step with the average of what they have changed.

    With `fragments` one part of the model after the other is averaged, evenly spread over the
    steps.
    """
    plan = schedule.diloco(outer, every, fragments)
    return LocalSteps(inner, averaging.settings_of(plan, outer, False, process_set))


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
