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
from checks.jax_run import JaxRun
from checks.runs import close, equal, gradients, same_everywhere


@check(min_ranks=2)
def its_memory_is_saved_with_the_state_and_begins_anew_with_other_ranks(here: Here) -> None:
    run = JaxRun(optax.identity(), compression=hvd.Compression.topk(0.1))
    params, fresh = run.params, run.state
    run.train(gradients(here.rank, 1))
    kept = run.state

    def goes_on(state: Any) -> Any:
        run.params, run.state = params, state
        run.train(gradients(here.rank, 1, first=1))
        return run.weights()

    loaded = pickle.loads(pickle.dumps(jax.device_get(kept)))
    assert equal(goes_on(loaded), goes_on(kept))
    of_others = loaded._replace(ranks=np.int32(here.size + 1))
    assert equal(goes_on(of_others), goes_on(fresh))
    assert not equal(goes_on(kept), goes_on(fresh))


@check()
def a_call_by_itself_has_no_memory(here: Here) -> None:
    with raises(ValueError, "pass it to hvd.distributed()"):
        hvd.allreduce(jnp.zeros((3, 3)), name="a", compression=hvd.Compression.topk())


@check(min_ranks=2)
def a_checkpoint_from_another_network_goes_on(here: Here) -> None:
    """Whose memory lacks what this network's choice needs."""
    dense = JaxRun(optax.identity(), compression=hvd.Compression.topk(skip="*"), mode="at once")
    compression = on_a_slow_network(hvd.Compression.auto())
    run = JaxRun(optax.identity(), compression=compression, mode="at once")
    run.state = dense.state
    run.train(gradients(here.rank, 2))
    assert set(run.memory()["w"]) == {"residual", "step"}


@check(min_ranks=2, seconds=60)
def onebit_adam_takes_a_schedule_and_remembers_in_its_state(here: Here) -> None:
    plain = JaxRun(JaxRun.onebit_adam(0.01, freeze_step=2), "")
    plain.train(gradients(here.rank, 5))
    assert plain.memory()["w"]["residual"].any()
    for mode in JaxRun.modes:
        schedule = JaxRun.onebit_adam(lambda count: 0.01, freeze_step=2)  # type: ignore[arg-type]
        run = JaxRun(optax.chain(schedule, optax.scale(1.0)), "", mode=mode)
        run.train(gradients(here.rank, 5))
        close(run.weights(), plain.weights(), 1e-6)
        same_everywhere(here, run.weights())
