"""JaxState in one process: what is copied, put back and moved, with and without donation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("hvdlite._core", reason="the native core is not built here")

import jax.numpy as jnp  # noqa: E402

import hvdlite.jax as hvd  # noqa: E402
from hvdlite.rendezvous.documents import Role  # noqa: E402

Tree = Any
Step = Callable[[Tree], Tree]


pytestmark = pytest.mark.usefixtures("alone")


def _params() -> Tree:
    return {"w": jnp.arange(4.0), "half": jnp.ones(2, jnp.bfloat16), "key": jax.random.key(3)}


def _grow(params: Tree) -> Tree:
    return {**params, "w": params["w"] + 1, "half": params["half"] * 2}


def _steps() -> list[Any]:
    return [pytest.param(donate, id=name) for donate, name in [((), "kept"), (0, "donated")]]


def _step(donate: Any) -> Step:
    return jax.jit(_grow, donate_argnums=donate)


def _numbers(params: Tree) -> list[Any]:
    return [
        np.asarray(jax.random.key_data(leaf) if "key" in str(leaf.dtype) else leaf).tolist()
        for leaf in jax.tree_util.tree_leaves(params)
    ]


@pytest.mark.parametrize("donate", _steps())
def test_restore_goes_back_to_the_commit_as_often_as_needed(donate: Any) -> None:
    step = _step(donate)
    state = hvd.elastic.JaxState(params=_params(), batch=3)
    state.params = step(state.params)
    state.commit()
    before = _numbers(state.params)
    for _ in range(3):
        state.params = step(state.params)
        state.batch += 1
        assert _numbers(state.params) != before
        state.restore()
        assert (_numbers(state.params), state.batch) == (before, 3)


@pytest.mark.parametrize("copies", ["auto", "always"])
@pytest.mark.parametrize("donate", _steps())
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_failed_step_is_undone(donate: Any, copies: str, steps: int) -> None:
    step = _step(donate)
    state = hvd.elastic.JaxState(params=_params(), copies=copies)
    state._marks.steps = True
    state._take_role(Role.KEEP, None, 0)
    for _ in range(steps):
        state.params = step(state.params)
        state.step()
    before = _numbers(state.params)
    for _ in range(2):
        step(state.params)  # and no step(): its arrays may be gone
        assert state._marks.progress().whole and state._marks.position == steps
        state._take_role(Role.KEEP, None, steps)
        assert _numbers(state.params) == before


def test_without_donation_no_array_is_copied() -> None:
    step = _step(())
    state = hvd.elastic.JaxState(params=_params())
    state._pace.took(1e6)
    state.params = step(state.params)
    state.step()
    state.params = step(state.params)
    state.step()
    kept = state.params
    state._take_role(Role.KEEP, None, 2)
    assert state.params["w"] is kept["w"]


def test_a_step_that_donates_after_others_that_did_not_is_told_so() -> None:
    state = hvd.elastic.JaxState(params=_params())
    state.params = _step(())(state.params)
    state.step()
    _step(0)(state.params)
    with pytest.raises(RuntimeError, match="copies='always'"):
        state._take_role(Role.KEEP, None, 1)


def test_what_is_no_array_is_copied_deeply_and_keeps_its_type() -> None:
    state = hvd.elastic.JaxState(opt=(jnp.zeros(2), [1], 2.5, np.ones(2)), names=["a"])
    state.opt[1].append(2)
    state.opt[3][0] = 7
    state.names.append("b")
    state.restore()
    array, numbers, number, of_numpy = state.opt
    assert (numbers, number, of_numpy.tolist(), state.names) == ([1], 2.5, [1.0, 1.0], ["a"])
    assert isinstance(number, float) and isinstance(array, jax.Array)
    state.sync()
    array, numbers, number, of_numpy = state.opt
    assert (numbers, number) == ([1], 2.5) and isinstance(of_numpy, np.ndarray)


def test_sync_begins_with_living_arrays() -> None:
    step = _step(0)
    state = hvd.elastic.JaxState(params=_params())
    before = _numbers(state.params)
    step(state.params)
    state.sync()
    assert _numbers(state.params) == before


def test_random_keys_and_cursors_belong_to_the_state() -> None:
    cursor = hvd.elastic.Cursor(100, batch_size=10)
    state = hvd.elastic.JaxState(key=jax.random.key(1), cursor=cursor)
    cursor.begin()
    state.key, _ = jax.random.split(state.key)
    state.commit()
    after = _numbers(state.key)
    state.sync()
    assert cursor.sample == 10 and _numbers(state.key) == after
    state.key, _ = jax.random.split(state.key)
    state.restore()
    assert _numbers(state.key) == after


def test_run_knows_jaxs_errors_by_hvdlites_mark() -> None:
    def fails(text: str) -> Exception:
        @hvd.elastic.run
        def train(state: Any) -> None:
            raise jax.errors.JaxRuntimeError(text)

        with pytest.raises(RuntimeError) as error:
            train(hvd.elastic.JaxState(params=_params()))
        return error.value

    lost = fails("INTERNAL: hvdlite.PeerLostError (rank 2): rank 2 was lost")
    assert isinstance(lost, hvd.PeerLostError) and lost.rank == 2 and lost.retryable
    assert not isinstance(fails("INTERNAL: HorovodAllreduce"), hvd.HorovodInternalError)


def test_other_copies_are_refused() -> None:
    with pytest.raises(ValueError, match="'auto' or 'always'"):
        hvd.elastic.JaxState(copies="never", params=_params())
