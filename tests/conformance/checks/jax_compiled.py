"""hvdlite.jax: collectives as part of compiled programs."""

from __future__ import annotations

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

import hvdlite.jax as hvd
from checks import check
from checks.here import SUM, Here
from checks.programs import calls_of


def _done() -> int:
    from hvdlite import _core

    return int(json.loads(_core.describe("metrics"))["operations"])


@check(seconds=30)
def the_last_call_happens_where_only_one_rank_uses_it(here: Here) -> None:
    def reduce(x):
        return hvd.allreduce(x, "last", op=SUM)

    def turn(total, x):
        return total + x, reduce(x)

    functions = (
        lambda x: (x, reduce(x)),
        lambda x: (x, jax.jit(reduce)(x)),
        lambda x: jax.lax.scan(turn, 0.0, x),
        lambda x: jax.grad(lambda x: (x.sum(), reduce(x)), has_aux=True)(x),
        lambda x: (x, jax.checkpoint(reduce)(x)),
    )
    x = jnp.arange(3.0)
    for function in functions:
        step = jax.jit(
            lambda x, function=function: function(x) if here.rank == 0 else function(x)[0]
        )
        for _ in range(3):  # the first time JAX dispatches it from Python
            made = jax.block_until_ready(step(x))
            if here.rank == 0:
                np.testing.assert_array_equal(made[1], x * here.size)


@check()
def a_step_is_dispatched_without_any_python(here: Here) -> None:
    step = jax.jit(jax.grad(lambda x: (hvd.allreduce(x, op=SUM) ** 2).sum()))
    x = jnp.ones(2)
    calls = step.lower(x).as_text().split("@hvdlite(")[1:]
    assert len(calls) == 2 and all("has_side_effect = true" in call for call in calls)
    for _ in range(3):
        jax.block_until_ready(step(x))
    entered: list[str] = []
    sys.setprofile(
        lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None
    )
    result = step(x)
    sys.setprofile(None)
    assert not entered, entered
    assert (result == 2 * here.size**2).all()


@check()
def a_jaxpr_may_be_interpreted(here: Here) -> None:
    traced = jax.make_jaxpr(lambda x: hvd.allreduce(x, op=SUM))(jnp.ones(2))
    (got,) = jax.core.eval_jaxpr(traced.jaxpr, traced.consts, jnp.ones(2))
    assert (got == here.size).all()


@check()
def the_way_back_is_in_order_too(here: Here) -> None:
    def loss(x):
        return sum(hvd.allreduce(x**i, op=SUM).sum() for i in range(2, 5))

    step = jax.jit(jax.grad(loss))
    x = jnp.full(50_000, 1.0)
    assert (step(x) == here.size * (2 + 3 + 4)).all()
    # Forth is not needed for back here, and comes first all the same.
    assert calls_of(step.lower(x).compile().as_text()) == (6, 6)


@check(seconds=30)
def programs_may_be_dispatched_without_waiting(here: Here) -> None:
    steps = [
        jax.jit(lambda x, i=i: hvd.allreduce(jnp.sin(x * i), f"program.{i}", op=SUM))
        for i in range(10)
    ]
    x = jnp.full(50_000, 0.1)
    for _ in range(3):
        for i, got in enumerate([step(x) for step in steps]):
            np.testing.assert_allclose(
                got[::9999], np.sin(0.1 * i) * here.size, rtol=1e-4, atol=1e-5
            )


@check()
def a_call_without_a_name_is_named_after_its_line(here: Here) -> None:
    text = jax.jit(lambda x: hvd.allreduce(x)).lower(jnp.ones(2)).as_text()
    assert "jax_compiled.py:" in text, text
    # So ranks that compile at different times, or another time, still agree.
    step = jax.jit(lambda x: hvd.allreduce(jnp.sum(x), op=SUM))
    if here.rank == 0:
        step.lower(jnp.ones(7)).compile()
    assert float(step(jnp.ones(3 + here.rank))) == sum(3 + r for r in here.ranks)


@check()
def donated_arrays_may_be_reduced(here: Here) -> None:
    step = jax.jit(lambda x: hvd.allreduce(x, op=SUM), donate_argnums=0)
    x = jnp.full(10_000, 1.0)
    for _ in range(3):
        x = step(x)
    assert (x == here.size**3).all()


@check()
def values_from_outside_are_reduced_when_the_program_runs(here: Here) -> None:
    constant = jnp.full(3, float(here.rank))
    step = jax.jit(lambda x: x + hvd.allreduce(constant, op=SUM))
    before = _done()
    step.lower(jnp.zeros(3))
    assert _done() == before, "a collective ran while tracing"
    assert (step(jnp.zeros(3)) == sum(here.ranks)).all()
