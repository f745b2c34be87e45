"""hvd.DriftGuard() in a loop of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hvdlite.jax as hvd
from checks import check
from checks.drifting import drifting, odd_one, told_once
from checks.here import Here, raises
from hvdlite.exceptions import MismatchError

WITHIN = 9  # HVDLITE_DRIFT_STEPS


def _params() -> Any:
    layer = {"bias": jnp.zeros(3, jnp.bfloat16), "kernel": jnp.ones((4, 3))}
    return {"dense": layer, "scale": jnp.float32(1.0)}


@jax.jit
def _step(params: Any) -> Any:
    return jax.tree_util.tree_map(lambda each: each * 0.5 + 1, params)


@check(min_ranks=2, leaf=("['dense']['bias']", "['dense']['kernel']", "['scale']"))
def a_parameter_that_differs_on_one_rank_is_found(here: Here, leaf: str) -> None:
    odd = here.size - 1
    with drifting(WITHIN):
        guard = hvd.DriftGuard()
    params = _params()
    for _ in range(2 * WITHIN):
        params = _step(params)
        guard.compare(params)
    assert guard.compared > 0
    if here.rank == odd:
        paths, structure = jax.tree_util.tree_flatten_with_path(params)
        leaves = [
            value + 1 if jax.tree_util.keystr(path) == leaf else value for path, value in paths
        ]
        params = structure.unflatten(leaves)
    with raises(MismatchError, f"'{leaf}'", *odd_one(here, odd)) as caught:
        for _ in range(WITHIN):
            guard.compare(params)
    here.same_on_all_ranks(str(caught[0]))


@check(min_ranks=2, loss=(True, False))
def numbers_that_are_finite_on_no_rank_are_told(here: Here, loss: bool) -> None:
    """With the first rank, if the guard is given each rank's loss."""
    odd = here.size - 1
    with drifting(WITHIN):
        guard = hvd.DriftGuard()

    @jax.jit
    def step(params: Any, x: Any) -> Any:
        value, gradients = jax.value_and_grad(lambda p: ((p["w"] * x).sum() + p["b"]) ** 2)(params)
        gradients = hvd.allreduce(gradients, name="gradients")
        return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, params, gradients), value

    def train() -> None:
        params = {"b": jnp.float32(1.0), "w": jnp.ones(5)}
        for number in range(4 * WITHIN):
            x = jnp.full(5, jnp.nan if here.rank == odd and number == 5 else 0.1)
            params, value = step(params, x)
            guard.compare(params, loss=value if loss else None)

    first = "since step 6, first on rank" if loss else "and no rank is known to be the first"
    told_once(here, train, "(and 1 more) is not finite on all ranks since step", first)


@check(min_ranks=2)
def equal_parameters_and_other_nans_raise_no_alarm(here: Here) -> None:
    with drifting(WITHIN):
        guard = hvd.DriftGuard()
    nan = np.array([0x7FC00000 + here.rank], np.uint32).view(np.float32)
    for step in range(4 * WITHIN):
        guard.compare({"a": jnp.full(5, step), "nan": jnp.asarray(nan)})
    guard.compare([jnp.zeros(2)])  # another tree, on all ranks
    for _ in range(2 * WITHIN):
        guard.compare([jnp.zeros(2)])


@check()
def a_guard_does_not_belong_into_a_compiled_function(here: Here) -> None:
    guard = hvd.DriftGuard()
    with raises(RuntimeError, "in the loop over the batches"):
        jax.jit(lambda x: guard.compare(x) or x)(jnp.ones(2))
