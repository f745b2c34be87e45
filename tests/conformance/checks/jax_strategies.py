"""Local steps and large batches with JAX and optax: at once, and in compiled steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import hvdlite.jax as hvd
from checks import check
from checks.here import Here, raises
from checks.jax_training import ROWS, _loss, _mine, _params, _same, _train

Make = Callable[[], Any]


def plain() -> Any:
    return optax.sgd(0.1)


def with_momentum() -> Any:
    return optax.sgd(0.05, momentum=0.9)


def data(steps: int) -> list[tuple[Any, Any]]:
    """The global batches, the same on every rank."""
    rng = np.random.default_rng(1)
    x = [jnp.asarray(rng.standard_normal((ROWS, 5)), jnp.float32) for _ in range(steps)]
    return [(each, each.sum(axis=1, keepdims=True)) for each in x]


def trained(
    here: Here, optimizer: Any, steps: int, jit: bool = True, begun: Any = None, **more: Any
) -> tuple[Any, Any]:
    """Parameters and state."""

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(_loss)(params, x, y)
        params, state = optimizer.step(gradients, state, params, loss=loss, **more)
        return params, state, hvd.allreduce(loss)  # which must not overtake an average

    run = jax.jit(step, donate_argnums=(0, 1)) if jit else step
    params, state = begun or (_params(), optimizer.init(_params()))
    mine = _mine(here)
    for x, y in data(steps):
        params, state, _ = run(params, state, x[mine], y[mine])
    return params, state


def simulated(here: Here, make: Make, steps: int, every: int, start: int = 0) -> Any:
    """One process that trains the ranks' parameters one after the other, and averages them."""
    optimizer, rows = make(), ROWS // here.size
    everyones = [_params() for _ in here.ranks]
    states = [optimizer.init(params) for params in everyones]
    mean = lambda *leaves: sum(leaves) / len(leaves)  # noqa: E731
    for number, (x, y) in enumerate(data(steps)):
        parts = [slice(rank * rows, (rank + 1) * rows) for rank in here.ranks]
        gradients = [
            jax.grad(_loss)(p, x[part], y[part]) for p, part in zip(everyones, parts, strict=True)
        ]
        if number < start:
            gradients = [jax.tree_util.tree_map(mean, *gradients)] * here.size
        for rank, gradient in enumerate(gradients):
            updates, states[rank] = optimizer.update(gradient, states[rank], everyones[rank])
            everyones[rank] = optax.apply_updates(everyones[rank], updates)
        if number >= start and (number + 1 - start) % every == 0:
            everyones = [jax.tree_util.tree_map(mean, *everyones)] * here.size
    return everyones[here.rank]


@check(jit=(True, False), seconds=30)
def an_interval_of_one_step_is_synchronous_training_bit_by_bit(here: Here, jit: bool) -> None:
    got, _ = trained(here, hvd.LocalSGD(plain(), every=1), 4, jit)
    want = _train(hvd.distributed(plain()), _mine(here), jit)
    for leaf, expected in zip(*map(jax.tree_util.tree_leaves, (got, want)), strict=True):
        np.testing.assert_array_equal(leaf, expected)


@check(jit=(True, False), seconds=30)
def weights_are_averaged_after_each_interval(here: Here, jit: bool) -> None:
    for every, start, steps in ((2, 0, 6), (3, 2, 8)):
        own = hvd.LocalSGD(with_momentum(), every=every, start=start)
        got, state = trained(here, own, steps, jit)
        _same(here, got, simulated(here, with_momentum, steps, every, start))
        assert float(state.counts.since) == 0.0 and float(state.counts.steps) == steps


@check(min_ranks=2, seconds=30)
def ranks_differ_between_averages_and_sync_ends_that(here: Here) -> None:
    own = hvd.LocalSGD(plain(), every=4)
    params, state = trained(here, own, 3)
    everyones = hvd.allgather_object(np.asarray(params["w1"]))
    assert not np.array_equal(everyones[0], everyones[1])
    params, state = own.sync(params, state)
    _same(here, params, params)
    assert float(state.counts.since) == 0.0


@check(min_ranks=2, seconds=30)
def momentum_is_averaged_if_it_is_asked_for(here: Here) -> None:
    for momentum in ("local", "average"):
        own = hvd.LocalSGD(with_momentum(), every=3, momentum=momentum)
        _, state = trained(here, own, 3)
        everyones = hvd.allgather_object(jax.device_get(jax.tree_util.tree_leaves(state.inner)))
        equal = all(np.array_equal(a, b) for a, b in zip(everyones[0], everyones[1], strict=True))
        assert equal == (momentum == "average")
    with raises(ValueError, "momentum='all'"):
        hvd.LocalSGD(plain(), every=3, momentum="all")


@check(jit=(True, False), seconds=30)
def an_outer_optimizer_of_rate_one_without_momentum_is_local_sgd(here: Here, jit: bool) -> None:
    for fragments in (1, 2):
        own = hvd.DiLoCo(
            with_momentum(), hvd.OuterSGD(1.0, momentum=0.0), every=3, fragments=fragments
        )
        got, state = trained(here, own, 6, jit)
        if fragments > 1:
            assert float(state.counts.since) == 0.0
            got, state = own.sync(got, state)
            _same(here, got, got)
        else:
            want, _ = trained(here, hvd.LocalSGD(with_momentum(), every=3), 6)
            _same(here, got, want)


@check(jit=(True, False), seconds=30)
def sync_behind_an_average_changes_nothing(here: Here, jit: bool) -> None:
    """Where ranks are equal already, momentum does not carry the weights on."""
    own = hvd.DiLoCo(plain(), every=2)
    params, state = trained(here, own, 4, jit)
    again, after = (jax.jit(own.sync) if jit else own.sync)(params, state)
    for leaf, expected in zip(
        *map(jax.tree_util.tree_leaves, ((again, after.outer), (params, state.outer))), strict=True
    ):
        np.testing.assert_array_equal(leaf, expected)


@check(seconds=30)
def the_outer_optimizer_is_optaxs(here: Here) -> None:
    """By hand: optax.sgd, whose gradient is how far the ranks have moved on average."""
    got, state = trained(here, hvd.DiLoCo(plain(), every=1), 4)
    outer = optax.sgd(0.7, momentum=0.9, nesterov=True)
    anchor, memory = _params(), outer.init(_params())
    inner = plain()
    for x, y in data(4):
        # one plain step from the anchor: the ranks' average is the step of the global batch
        updates, _ = inner.update(jax.grad(_loss)(anchor, x, y), inner.init(anchor), anchor)
        moved = jax.tree_util.tree_map(lambda u: -u, updates)
        updates, memory = outer.update(moved, memory, anchor)
        anchor = optax.apply_updates(anchor, updates)
    _same(here, got, anchor)
    for (kept, _), leaf in zip(state.outer, jax.tree_util.tree_leaves(got), strict=True):
        np.testing.assert_array_equal(kept, leaf)


@check(seconds=30)
def a_loss_that_falls_shrinks_the_interval_on_all_ranks(here: Here) -> None:
    own = hvd.LocalSGD(optax.sgd(0.2), every=8, adaptive=True)
    _, state = trained(here, own, 40)
    interval = float(state.counts.interval)
    assert 1 <= interval < 8, interval
    assert len(set(hvd.allgather_object(interval))) == 1


@check(jit=(True, False), seconds=30)
def averages_by_time_weigh_ranks_by_their_samples(here: Here, jit: bool) -> None:
    own = hvd.LocalSGD(optax.sgd(0.0), every="1000h")
    params = {"w": jnp.full((3, 2), float(here.rank))}
    step = jax.jit(own.step) if jit else own.step
    nothing = jax.tree_util.tree_map(jnp.zeros_like, params)
    params, state = step(nothing, own.init(params), params, samples=here.rank + 1.0)
    params, state = own.sync(params, state)
    total = sum(rank + 1 for rank in here.ranks)
    want = sum(rank * (rank + 1) for rank in here.ranks) / total
    _same(here, params, {"w": np.full((3, 2), want)})


@check(seconds=30)
def an_interval_by_time_ends_by_itself(here: Here) -> None:
    own = hvd.LocalSGD(plain(), every="1ms")
    params, state = trained(here, own, 1)
    for _ in range(1000):
        params, state = trained(here, own, 1, jit=False, begun=(params, state))
        if float(state.counts.since) == 0.0:
            break
    else:
        raise AssertionError("1000 steps took less than a millisecond")
    jax.block_until_ready(params)
    hvd.join()
    params, state = own.sync(params, state)
    _same(here, params, params)


@check(seconds=30)
def state_is_a_pytree_and_may_be_kept(here: Here) -> None:
    own = hvd.DiLoCo(with_momentum(), every=3)
    params, state = trained(here, own, 4)
    kept = jax.device_get((params, state))
    first, _ = trained(here, own, 4, begun=(params, state))
    again, _ = trained(here, own, 4, begun=jax.tree_util.tree_map(jnp.asarray, kept))
    for leaf, expected in zip(*map(jax.tree_util.tree_leaves, (first, again)), strict=True):
        np.testing.assert_array_equal(leaf, expected)


@check(min_ranks=2, seconds=30)
def ranks_outside_the_process_set_train_alone(here: Here) -> None:
    only = hvd.add_process_set([0])
    got, _ = trained(here, hvd.LocalSGD(plain(), every=2, process_set=only), 4)
    got = jax.block_until_ready(got)
    hvd.remove_process_set(only)
    if here.rank:
        alone = _train(plain(), _mine(here))
        for leaf, expected in zip(*map(jax.tree_util.tree_leaves, (got, alone)), strict=True):
            np.testing.assert_allclose(leaf, expected, rtol=1e-6, atol=1e-6)


@check(optimizer=("lars", "lamb"), seconds=30)
def norms_are_those_of_the_reduced_gradient(here: Here, optimizer: str) -> None:
    """optax' own LARS and LAMB."""
    kind = getattr(optax, optimizer)
    more = {"trust_coefficient": 0.02, "trust_ratio_mask": _matrices} if optimizer == "lars" else {}

    def make() -> Any:
        return kind(0.05, weight_decay=0.01, **more)

    _same(here, _train(hvd.distributed(make()), _mine(here)), _train(make(), slice(None)))


def _matrices(tree: Any) -> Any:
    return jax.tree_util.tree_map(lambda leaf: leaf.ndim > 1, tree)


@check(seconds=30)
def the_rate_grows_step_by_step_to_that_of_all_ranks(here: Here) -> None:
    schedule = hvd.linear_warm_up(0.1, steps=4)
    want = [0.1 * (1 + (here.size - 1) * share) for share in (0.25, 0.5, 0.75, 1.0, 1.0)]
    np.testing.assert_allclose([float(schedule(step)) for step in range(5)], want, rtol=1e-6)
    falling = hvd.linear_warm_up(optax.cosine_decay_schedule(0.1, 10), steps=4, scale=3.0)
    np.testing.assert_allclose(falling(10), 0.0, atol=1e-8)
    optimizer = hvd.distributed(optax.sgd(schedule))
    assert np.isfinite(np.asarray(_train(optimizer, _mine(here))["w1"])).all()
