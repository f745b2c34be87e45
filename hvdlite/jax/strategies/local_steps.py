"""LocalSGD and DiLoCo for optax: ranks make steps of their own and average weights from time to
time.

An optax transformation returns what is to be added to the weights. A sum rounds, and on each rank
otherwise, so that ranks would not have the same after an average. So these have step(), which
returns the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hvdlite.adapter.local import averaging, schedule
from hvdlite.adapter.local.averaging import Averager, Settings
from hvdlite.adapter.local.outer import Outer, OuterSGD
from hvdlite.adapter.local.schedule import Count
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.jax import trace
from hvdlite.jax.compression.backend import BACKEND

Tree = Any
Array = Any


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
