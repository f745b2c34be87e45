"""hvd.distributed(): training on parts of the batch gives the weights of a single process on all of
it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import hvdlite.jax as hvd
from checks import check
from checks.here import Here, raises

STEPS, ROWS = 4, 12  # rows: divisible by 1, 2 and 3 ranks


class Plain(NamedTuple):
    """An optimizer that knows nothing of optax."""

    init: Callable[..., Any]
    update: Callable[..., Any]


class Classy:
    """And one that is not even a tuple."""

    def init(self, params: Any) -> tuple[()]:
        return ()

    def update(self, gradients: Any, state: Any, params: Any = None) -> Any:
        return jax.tree_util.tree_map(lambda g: -0.1 * g, gradients), state


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optax.sgd(0.1, momentum=0.9),
    "adamw": lambda: optax.adamw(0.01, weight_decay=0.1),
    "chain": lambda: optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.01)),
    "plain": lambda: Plain(Classy().init, Classy().update),
    "class": Classy,
}


def _params() -> Any:
    rng = np.random.default_rng(0)
    return {
        "w1": jnp.asarray(rng.standard_normal((5, 8)), jnp.float32) * 0.5,
        "b1": jnp.zeros(8),
        "w2": jnp.asarray(rng.standard_normal((8, 1)), jnp.float32) * 0.5,
    }


def _loss(params: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ params["w1"] + params["b1"]) @ params["w2"] - y) ** 2)


def _train(optimizer: Any, part: slice, jit: bool = True) -> Any:
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        gradients = jax.grad(_loss)(params, x, y)
        updates, state = optimizer.update(gradients, state, params)
        return jax.tree_util.tree_map(lambda p, u: p + u, params, updates), state

    params, rng = _params(), np.random.default_rng(1)
    state = optimizer.init(params)
    run = jax.jit(step, donate_argnums=(0, 1)) if jit else step
    for _ in range(STEPS):
        x = jnp.asarray(rng.standard_normal((ROWS, 5)), jnp.float32)
        params, state = run(params, state, x[part], x[part].sum(axis=1, keepdims=True))
    return params


def _mine(here: Here) -> slice:
    rows = ROWS // here.size
    return slice(here.rank * rows, (here.rank + 1) * rows)


def _same(here: Here, got: Any, want: Any, tolerance: float = 1e-5) -> None:
    for leaf, expected in zip(*map(jax.tree_util.tree_leaves, (got, want)), strict=True):
        np.testing.assert_allclose(leaf, expected, atol=tolerance, rtol=tolerance)
        here.saw(np.asarray(leaf))
    here.settle()


@check(name=tuple(OPTIMIZERS))
def is_training_on_the_global_batch(here: Here, name: str) -> None:
    make = OPTIMIZERS[name]
    _same(here, _train(hvd.distributed(make()), _mine(here)), _train(make(), slice(None)))


@check()
def with_options_and_without_jit(here: Here) -> None:
    make = OPTIMIZERS["sgd"]
    want = _train(make(), slice(None))
    _same(here, _train(hvd.distributed(make()), _mine(here), jit=False), want)
    _same(here, _train(hvd.distributed(make(), gradient_predivide_factor=4.0), _mine(here)), want)
    _same(
        here,
        _train(hvd.distributed(make(), compression=hvd.Compression.bf16), _mine(here)),
        want,
        2e-2,
    )
    with raises(ValueError, "gradient_predivide_factor"):
        hvd.distributed(make(), op=hvd.Sum, gradient_predivide_factor=2.0)


@check()
def accumulation_around_it_saves_messages(here: Here) -> None:
    several = optax.MultiSteps(hvd.distributed(optax.sgd(0.1)), every_k_schedule=2)
    _same(
        here, _train(several, _mine(here)), _train(optax.MultiSteps(optax.sgd(0.1), 2), slice(None))
    )


@check()
def optaxs_types_stay_what_they_are(here: Here) -> None:
    for optimizer in (optax.adam(0.1), optax.GradientTransformationExtraArgs(*optax.adam(0.1))):
        assert type(hvd.distributed(optimizer)) is type(optimizer)


@check(min_ranks=2)
def ranks_outside_the_process_set_train_alone(here: Here) -> None:
    only = hvd.add_process_set([0])
    alone = _train(optax.sgd(0.1), _mine(here))
    # JAX runs ahead: what still runs would find its process set gone.
    got = jax.block_until_ready(
        _train(hvd.distributed(optax.sgd(0.1), process_set=only), _mine(here))
    )
    hvd.remove_process_set(only)
    for leaf, expected in zip(*map(jax.tree_util.tree_leaves, (got, alone)), strict=True):
        np.testing.assert_allclose(leaf, expected, rtol=1e-6, atol=1e-6)
