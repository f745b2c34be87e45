"""Local steps and large batches with JAX and optax, beside what local_steps.py has."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import hvdlite.jax as hvd
from checks import check
from checks.here import Here
from checks.jax_training import ROWS, _loss, _mine, _params, _train


def data(steps: int) -> list[tuple[Any, Any]]:
    """The global batches, the same on every rank."""
    rng = np.random.default_rng(1)
    x = [jnp.asarray(rng.standard_normal((ROWS, 5)), jnp.float32) for _ in range(steps)]
    return [(each, each.sum(axis=1, keepdims=True)) for each in x]


def trained(here: Here, optimizer: Any, steps: int, begun: Any = None) -> tuple[Any, Any]:
    """Parameters and state, in compiled steps."""

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(_loss)(params, x, y)
        params, state = optimizer.step(gradients, state, params, loss=loss)
        return params, state, hvd.allreduce(loss)  # which must not overtake an average

    run = jax.jit(step, donate_argnums=(0, 1))
    params, state = begun or (_params(), optimizer.init(_params()))
    mine = _mine(here)
    for x, y in data(steps):
        params, state, _ = run(params, state, x[mine], y[mine])
    return params, state


@check(seconds=30)
def a_loss_that_falls_shrinks_the_interval_on_all_ranks(here: Here) -> None:
    own = hvd.LocalSGD(optax.sgd(0.2), every=8, adaptive=True)
    _, state = trained(here, own, 40)
    interval = float(state.counts.interval)
    assert 1 <= interval < 8, interval
    assert len(set(hvd.allgather_object(interval))) == 1


@check(seconds=30)
def state_is_a_pytree_and_may_be_kept(here: Here) -> None:
    own = hvd.DiLoCo(optax.sgd(0.05, momentum=0.9), every=3)
    params, state = trained(here, own, 4)
    kept = jax.device_get((params, state))
    first, _ = trained(here, own, 4, begun=(params, state))
    again, _ = trained(here, own, 4, begun=jax.tree_util.tree_map(jnp.asarray, kept))
    for leaf, expected in zip(*map(jax.tree_util.tree_leaves, (first, again)), strict=True):
        np.testing.assert_array_equal(leaf, expected)


@check(seconds=30)
def the_rate_grows_step_by_step_to_that_of_all_ranks(here: Here) -> None:
    schedule = hvd.linear_warm_up(0.1, steps=4)
    want = [0.1 * (1 + (here.size - 1) * share) for share in (0.25, 0.5, 0.75, 1.0, 1.0)]
    np.testing.assert_allclose([float(schedule(step)) for step in range(5)], want, rtol=1e-6)
    falling = hvd.linear_warm_up(optax.cosine_decay_schedule(0.1, 10), steps=4, scale=3.0)
    np.testing.assert_allclose(falling(10), 0.0, atol=1e-8)
    optimizer = hvd.distributed(optax.sgd(schedule))
    assert np.isfinite(np.asarray(_train(optimizer, _mine(here))["w1"])).all()
