"""LocalSGD and DiLoCo for optax: ranks make steps of their own and average weights from time to
time.

An optax transformation returns what is to be added to the weights. A sum rounds, and on each rank
otherwise, so that ranks would not have the same after an average. So these have step(), which
returns the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hvdlite.adapter import names
from hvdlite.adapter.agreement import drift
from hvdlite.adapter.local import schedule
from hvdlite.adapter.local.outer import Outer, OuterSGD
from hvdlite.adapter.local.outer import step as outer_step
from hvdlite.adapter.local.schedule import Count, Plan
from hvdlite.adapter.step import Options
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Average, Sum
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.jax import trace
from hvdlite.jax.gradients import allreduce_gradients
from hvdlite.jax.ops import run
from hvdlite.jax.strategies.either import either, seconds

Tree = Any
Array = Any
Leaves = list[Array]


class LocalState(NamedTuple):
    """A pytree: part of a checkpoint, of donated arguments, of a JaxState."""

    inner: Any  # the optimizer's own state
    counts: Count
    outer: list[tuple[Array, Array]]  # of DiLoCo, by leaf: anchors and velocities


class LocalSteps:
    """What LocalSGD() and DiLoCo() return."""

    def __init__(
        self, optimizer: Any, plan: Plan, outer: Outer | None, averages_state: bool,
        process_set: ProcessSet,
    ) -> None:  # fmt: skip
        self._optimizer = optimizer
        self._plan = plan
        self._outer = outer
        self._averages_state = averages_state
        scope = names.scope()
        self._gradients = Options(Average, 1.0, 1.0, process_set=process_set, scope=scope)
        self._call = Call(ALLREDUCE, f"{scope}local.weights", process_set, Sum)

    def init(self, params: Tree) -> LocalState:
        """The state before the first step."""
        outer = []
        if self._outer is not None:
            leaves = jax.tree_util.tree_leaves(params)
            outer = [(jnp.array(leaf), jnp.zeros_like(leaf)) for leaf in leaves]
        now = seconds() if self._plan.is_timed else 0.0
        count = _numbers(schedule.begin(self._plan, now))
        return LocalState(self._optimizer.init(params), count, outer)

    def step(self, gradients: Tree, state: LocalState, params: Tree, *, samples: Any = 1.0,
             loss: Any = 0.0, **extra: Any) -> tuple[Tree, LocalState]:  # fmt: skip
        """One step of this rank, and an average of the weights if it is time: the new weights and
        the new state. At once, or inside jax.jit.

        `samples` weigh averages by time; `loss` is what adaptive=True needs. `extra` goes to the
        optimizer's update().
        """
        plan, takes_part = self._plan, self._gradients.takes_part()
        now = seconds() if plan.is_timed else 0.0
        if takes_part:
            gradients = self._synchronous(gradients, state.counts)
        updates, inner = self._optimizer.update(gradients, state.inner, params, **extra)
        params = jax.tree_util.tree_map(_added, params, updates)
        count = schedule.stepped(plan, state.counts, now, jnp, samples, loss)
        state = LocalState(inner, _numbers(count), state.outer)
        if not takes_part or plan.always_synchronous:
            return params, state
        if not plan.is_cut:
            due = schedule.is_due(plan, count, now)
            return either(due, self._average_all, (params, state))
        for fragment, start in enumerate(schedule.starts(plan)):

            def average(given: Any, fragment: int = fragment) -> Any:
                return self._averaged(given[0], given[1], fragment)[:2]

            params, state = either(count.since == start, average, (params, state))
        since = jnp.where(count.since == plan.every, 0.0, count.since)
        return params, state._replace(counts=_numbers(state.counts._replace(since=since)))

    def sync(self, params: Tree, state: LocalState) -> tuple[Tree, LocalState]:
        """Averages all weights now. All ranks call it: before they evaluate or save the model, at
        the end, and after hvd.join().

        Where averages go by time, it takes part in those of ranks that are still on their way, and
        is called outside of jax.jit.
        """
        if not self._gradients.takes_part():
            return params, state
        if not self._plan.is_timed:
            return self._average_all((params, state))
        if trace.is_tracing():
            raise RuntimeError(
                "sync() of averages by time was called in a function that is being compiled "
                "(jax.jit), where it cannot wait for slower ranks: call it outside"
            )
        size, here = self._call.process_set.size() or 1, 0.0
        while here < size:
            params, state, numbers = self._averaged(params, state, None, is_sync=True)
            count = schedule.averaged(self._plan, state.counts, numbers[1], seconds(), jnp)
            state, here = state._replace(counts=_numbers(count)), float(numbers[2])
        return self._level(params, state)

    # ---- how

    def _level(self, params: Tree, state: LocalState) -> tuple[Tree, LocalState]:
        """A compiled program rounds otherwise than sync(), and a slower rank may have been in the
        one when others were in the other."""
        if self._outer is None:
            return params, state
        kept, structure = jax.tree_util.tree_flatten(state.outer)
        means = allreduce_gradients(kept, self._gradients)
        outer = jax.tree_util.tree_unflatten(structure, means)
        leaves, structure = jax.tree_util.tree_flatten(params)
        leaves = [
            anchor if _is_float(leaf) else leaf
            for leaf, (anchor, _) in zip(leaves, outer, strict=True)
        ]
        return jax.tree_util.tree_unflatten(structure, leaves), state._replace(outer=outer)

    def _synchronous(self, gradients: Tree, count: Count) -> Tree:
        """Gradients of all ranks, as long as steps are synchronous."""
        plan = self._plan
        if plan.never_synchronous:
            return gradients

        def reduced(tree: Tree) -> Tree:
            leaves, structure = jax.tree_util.tree_flatten(tree)
            found = allreduce_gradients(leaves, self._gradients)
            return jax.tree_util.tree_unflatten(structure, found)

        if plan.always_synchronous:
            return reduced(gradients)
        return either(schedule.is_synchronous(plan, count), reduced, gradients)

    def _average_all(self, given: tuple[Tree, LocalState]) -> tuple[Tree, LocalState]:
        params, state, numbers = self._averaged(*given, None)
        now = seconds() if self._plan.is_timed else 0.0
        count = schedule.averaged(self._plan, state.counts, numbers[1], now, jnp)
        return params, state._replace(counts=_numbers(count))

    def _averaged(
        self, params: Tree, state: LocalState, fragment: int | None, is_sync: bool = False
    ) -> tuple[Tree, LocalState, Array]:
        """The weights, or a fragment of them, averaged; and the numbers of _mean()."""
        leaves, structure = jax.tree_util.tree_flatten(params)
        inner, inner_structure = jax.tree_util.tree_flatten(state.inner)
        outer = list(state.outer)
        chosen = [i for i in self._of(leaves, fragment) if _is_float(leaves[i])]
        memory = self._memory(inner, leaves)
        sent = [leaves[i] for i in chosen]
        if self._outer is not None:
            sent = [outer[i][0] - leaf for i, leaf in zip(chosen, sent, strict=True)]
        name = f"{self._call.name}{'' if fragment is None else f'.{fragment}'}"
        everything = [*sent, *(inner[i] for i in memory)]
        means, numbers = self._mean(everything, state.counts, name, is_sync)
        for i, mean in zip(chosen, means, strict=False):
            if self._outer is None:
                leaves[i] = mean
            else:
                outer[i] = outer_step(self._outer, outer[i][0], mean, outer[i][1], jnp)
                leaves[i] = outer[i][0]
        for i, mean in zip(memory, means[len(chosen) :], strict=True):
            inner[i] = mean
        params = jax.tree_util.tree_unflatten(structure, leaves)
        own = jax.tree_util.tree_unflatten(inner_structure, inner)
        return params, LocalState(own, state.counts, outer), numbers

    def _memory(self, inner: Leaves, leaves: Leaves) -> list[int]:
        """Which leaves of the optimizer's state are what it remembers of gradients."""
        if not self._averages_state:
            return []
        shapes = {leaf.shape for leaf in leaves if leaf.ndim}
        return [i for i, leaf in enumerate(inner) if _is_float(leaf) and leaf.shape in shapes]

    def _of(self, leaves: Sequence[Array], fragment: int | None) -> range:
        if fragment is None:
            return range(len(leaves))
        return drift.cuts([leaf.size * leaf.dtype.itemsize for leaf in leaves],
                          self._plan.fragments)[fragment]  # fmt: skip

    def _mean(self, sent: Leaves, count: Count, name: str, is_sync: bool) -> tuple[Leaves, Array]:
        """Of what all ranks send, by their shares. With it the sum of the shares, the mean loss,
        and how many ranks were in sync()."""
        share = schedule.share(self._plan, count, jnp)
        weighed = sent
        if self._plan.is_timed:
            weighed = [each.astype(jnp.promote_types(each.dtype, jnp.float32)) * share
                       for each in sent]  # fmt: skip
        loss = schedule.mean_loss(count, jnp)
        own = [jnp.float32(each) for each in (share, share * loss, is_sync)]
        numbers = jnp.stack(own)
        *sums, numbers = run(self._call._replace(name=name, grouped=True), [*weighed, numbers])
        means = [
            (total / numbers[0]).astype(each.dtype) for total, each in zip(sums, sent, strict=True)
        ]
        return means, numbers.at[1].divide(numbers[0])


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
    return LocalSteps(optimizer, plan, None, momentum == "average", process_set)


def DiLoCo(inner: Any, outer: Outer = OuterSGD(), every: int | str = 500, fragments: int = 1,  # noqa: B008
           process_set: ProcessSet = global_process_set) -> LocalSteps:  # fmt: skip
    """`inner`, an optax transformation, whose ranks make `every` steps of their own; then `outer`
    makes a step with the average of what they have changed.

    With `fragments` one part of the model after the other is averaged, evenly spread over the
    steps.
    """
    plan = schedule.diloco(outer, every, fragments)
    return LocalSteps(inner, plan, outer, False, process_set)


def _added(parameter: Array, update: Array) -> Array:
    """As optax.apply_updates(). An update may be absent."""
    return parameter if update is None else jnp.asarray(parameter + update, parameter.dtype)


def _numbers(count: Count) -> Count:
    return Count(*(jnp.asarray(number, jnp.float32) for number in count))


def _is_float(leaf: Array) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jnp.floating))
