"""Compression with memory under hvd.distributed(): the memory is part of the optimizer's state."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import hvdlite.jax as hvd
from checks import check
from checks.choosing import on_a_slow_network
from checks.here import Here, raises


def _params() -> Any:
    return {"w": jnp.zeros((12, 9)), "b": jnp.zeros(9)}


def _gradients(rank: int, step: int) -> Any:
    rng = np.random.default_rng([rank, step])
    return {
        "w": jnp.asarray(rng.standard_normal((12, 9)), jnp.float32),
        "b": jnp.asarray(rng.standard_normal(9), jnp.float32),
    }


@check(min_ranks=2)
def its_memory_is_saved_with_the_state_and_begins_anew_with_other_ranks(here: Here) -> None:
    optimizer = hvd.distributed(optax.identity(), compression=hvd.Compression.topk(0.1))
    _, state = optimizer.update(_gradients(here.rank, 0), optimizer.init(_params()))
    loaded = pickle.loads(pickle.dumps(jax.device_get(state)))
    expected, _ = optimizer.update(_gradients(here.rank, 1), state)
    got, _ = optimizer.update(_gradients(here.rank, 1), loaded)
    np.testing.assert_array_equal(got["w"], expected["w"])
    of_others = loaded._replace(ranks=np.int32(here.size + 1))
    got, _ = optimizer.update(_gradients(here.rank, 1), of_others)
    expected, _ = optimizer.update(_gradients(here.rank, 1), optimizer.init(_params()))
    np.testing.assert_array_equal(got["w"], expected["w"])


@check()
def what_makes_no_sense_is_refused(here: Here) -> None:
    for inner, words in ((optax.sgd(0.1, momentum=0.9), "trace"), (optax.adam(0.1), "mu")):
        optimizer = hvd.distributed(inner, compression=hvd.Compression.dgc())
        with raises(ValueError, f"the optimizer has {words}"):
            optimizer.init(_params())
    hvd.distributed(optax.adam(0.1), compression=hvd.Compression.topk()).init(_params())
    with raises(ValueError, "pass it to hvd.distributed()"):
        hvd.allreduce(jnp.zeros((3, 3)), name="a", compression=hvd.Compression.topk())


@check(min_ranks=2)
def auto_decides_before_the_first_step(here: Here) -> None:
    for jit in (True, False):
        compression = on_a_slow_network(
            hvd.Compression.auto([hvd.Compression.int8(), hvd.Compression.sign(skip="*")])
        )
        optimizer = hvd.distributed(optax.identity(), compression=compression)
        update = jax.jit(optimizer.update) if jit else optimizer.update
        state = optimizer.init(_params())
        before = hvd.metrics()["bytes_encoded"]
        for step in range(3):
            reduced, state = update(_gradients(here.rank, step), state)
        jax.block_until_ready(state.memory)
        assert hvd.metrics()["bytes_encoded"] > before
        assert set(state.memory[1]) == {"residual", "step"} and not state.memory[0]
        here.saw(np.asarray(reduced["w"]))
        here.settle()


@check(min_ranks=2)
def auto_chooses_casts_too(here: Here) -> None:
    for jit in (True, False):
        compression = on_a_slow_network(hvd.Compression.auto([hvd.Compression.bf16]))
        optimizer = hvd.distributed(optax.identity(), compression=compression)
        update = jax.jit(optimizer.update) if jit else optimizer.update
        given = {"w": jnp.full((12, 9), 1.0 + 2.0**-10), "b": jnp.full(9, 1.0 + 2.0**-10)}
        reduced, _ = update(given, optimizer.init(_params()))
        np.testing.assert_allclose(reduced["w"], np.ones((12, 9), np.float32), rtol=1e-6)
        np.testing.assert_allclose(reduced["b"], given["b"], rtol=1e-6)


@check(min_ranks=2)
def a_checkpoint_from_another_network_goes_on(here: Here) -> None:
    """Whose memory lacks what this network's choice needs."""
    dense = hvd.distributed(optax.identity(), compression=hvd.Compression.topk(skip="*"))
    state = dense.init(_params())
    compression = on_a_slow_network(hvd.Compression.auto())
    optimizer = hvd.distributed(optax.identity(), compression=compression)
    for step in range(2):
        _, state = optimizer.update(_gradients(here.rank, step), state)
    assert set(state.memory[1]) == {"residual", "step"}


@check(jit=(True, False), seconds=30)
def onebit_adam_is_adam_until_it_freezes(here: Here, jit: bool) -> None:
    ours = hvd.OneBitAdam(0.01, weight_decay=0.1, freeze_step=100)
    plain = hvd.distributed(optax.chain(optax.add_decayed_weights(0.1), optax.adam(0.01)))
    results = []
    for optimizer in (ours, plain):
        params = _params()
        state, update = optimizer.init(params), jax.jit(optimizer.update)
        for step in range(4):
            run = update if jit else optimizer.update
            updates, state = run(_gradients(here.rank, step), state, params)
            params = optax.apply_updates(params, updates)
        results.append(params)
    for key in ("w", "b"):
        np.testing.assert_allclose(results[0][key], results[1][key], atol=1e-6)


@check(min_ranks=2, jit=(True, False), seconds=30)
def onebit_adam_sends_signs_after_it_has_frozen(here: Here, jit: bool) -> None:
    optimizer = optax.chain(hvd.OneBitAdam(lambda count: 0.01, freeze_step=2), optax.scale(1.0))
    params = _params()
    state, update = optimizer.init(params), jax.jit(optimizer.update) if jit else optimizer.update
    frozen: list[Any] = []
    for step in range(5):
        before = hvd.metrics()["bytes_encoded"]
        updates, state = update(_gradients(here.rank, step), state, params)
        params = jax.block_until_ready(optax.apply_updates(params, updates))
        assert (hvd.metrics()["bytes_encoded"] > before) == (step >= 2), step
        frozen.append(np.asarray(state[0].nu["w"]))
    np.testing.assert_array_equal(frozen[1], frozen[4])
    assert np.asarray(state[0].memory[1]["residual"]).any()
    for key in ("w", "b"):
        everyones = hvd.allgather_object(np.asarray(params[key]))
        assert all(np.array_equal(each, everyones[0]) for each in everyones)
    with raises(ValueError, "freeze_step=0"):
        hvd.OneBitAdam(0.01, freeze_step=0)
