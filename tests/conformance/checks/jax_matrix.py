"""JAX: each optimizer of ours in each kind of trouble. It is right, or refused with a sentence.

There is no loss scaler and no callback, and all gradients are there: jax.grad gives zeros.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import hvdlite.jax as hvd
from checks import check
from checks.here import Here, raises
from checks.jax_strategies import data
from checks.jax_training import _loss, _mine, _params

WAYS = {
    "distributed": lambda: hvd.distributed(optax.sgd(0.05, momentum=0.9)),
    "local_sgd": lambda: hvd.LocalSGD(optax.sgd(0.05, momentum=0.9), every=3),
    "diloco": lambda: hvd.DiLoCo(optax.sgd(0.05, momentum=0.9), every=3),
    "onebit_adam": lambda: hvd.OneBitAdam(0.01, freeze_step=3),
}
BY_TIME = {
    "local_sgd": lambda: hvd.LocalSGD(optax.sgd(0.05), every="1ms"),
    "diloco": lambda: hvd.DiLoCo(optax.sgd(0.05), every="1ms"),
}


def _trained(here: Here, own: Any, gradient: Any, steps: int, begun: Any = None) -> Any:
    """Parameters and state. `gradient`: of the number of a step, parameters and data."""

    @jax.jit
    def step(number: Any, params: Any, state: Any, x: Any, y: Any) -> Any:
        gradients = gradient(number, params, x, y)
        if hasattr(own, "step"):
            return own.step(gradients, state, params)
        updates, state = own.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    params, state = begun or (_params(), own.init(_params()))
    for number, (x, y) in enumerate(data(steps)):
        params, state = step(number, params, state, x[_mine(here)], y[_mine(here)])
    return params, state


def _equal(here: Here, own: Any, params: Any, state: Any) -> None:
    if hasattr(own, "sync"):
        params, state = own.sync(params, state)
    for leaf in jax.tree_util.tree_leaves(params):
        assert np.isfinite(leaf).all()
        here.saw(np.asarray(leaf))
    here.settle()


@check(way=tuple(WAYS), min_ranks=2, seconds=30)
def a_part_that_one_rank_does_not_use(here: Here, way: str) -> None:
    """In every second step. Its gradient is zeros there."""

    def gradient(number: Any, params: Any, x: Any, y: Any) -> Any:
        found = jax.grad(_loss)(params, x, y)
        if here.rank == 1:
            found = {**found, "w1": jnp.where(number % 2 == 1, 0.0, found["w1"])}
        return found

    own = WAYS[way]()
    params, state = _trained(here, own, gradient, 7)
    _equal(here, own, params, state)


@check(way=tuple(WAYS), min_ranks=2, seconds=30)
def a_part_that_is_frozen_and_thawed(here: Here, way: str) -> None:
    """Between two averages, by stop_gradient."""

    def frozen(number: Any, params: Any, x: Any, y: Any) -> Any:
        def loss(given: Any) -> Any:
            return _loss({**given, "w1": jax.lax.stop_gradient(given["w1"])}, x, y)

        return jax.grad(loss)(params)

    def thawed(number: Any, params: Any, x: Any, y: Any) -> Any:
        return jax.grad(_loss)(params, x, y)

    own = WAYS[way]()
    begun = _trained(here, own, thawed, 2)
    begun = _trained(here, own, frozen, 2, begun)
    _equal(here, own, *begun)
    before = np.asarray(begun[0]["w1"])
    params, state = _trained(here, own, thawed, 2, begun)
    assert not np.array_equal(np.asarray(params["w1"]), before)
    _equal(here, own, params, state)


@check(way=tuple(BY_TIME), min_ranks=2, seconds=30)
def ranks_of_uneven_speed_with_averages_by_time(here: Here, way: str) -> None:
    """Rank 0 makes a quarter of the others' steps, and so of their averages."""

    def gradient(number: Any, params: Any, x: Any, y: Any) -> Any:
        return jax.grad(_loss)(params, x, y)

    own = BY_TIME[way]()
    begun = None
    for _ in range(2):
        begun = _trained(here, own, gradient, 2 if here.rank == 0 else 8, begun)
        begun = own.sync(*begun)
        _equal(here, own, *begun)
    with raises(RuntimeError, "(jax.jit), where it cannot wait for slower ranks"):
        jax.jit(own.sync)(*begun)
