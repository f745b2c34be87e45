"""hvdlite.jax: gradients beside integers, through jax.checkpoint, scan and cond, and under vmap."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import hvdlite.jax as hvd
from checks import check
from checks.here import SUM, Here, raises
from checks.jax_api import WAYS, run


@check(way=WAYS)
def integers_beside_floats_have_none(here: Here, way: str) -> None:
    tree = {"w": jnp.full(3, 2.0), "count": jnp.arange(2)}

    def loss(tree):
        done = hvd.allreduce(tree, op=SUM)
        return (done["w"] * done["count"].sum()).sum()

    got = run(way, jax.grad(loss, allow_int=True), tree)
    assert got["w"].tolist() == [here.size * here.size] * 3
    assert got["count"].dtype == jax.dtypes.float0
    # And such gradients, which are nothing, pass a reduction as they are.
    reduced = hvd.allreduce(jax.grad(loss, allow_int=True)(tree), op=SUM)
    assert (
        reduced["count"].dtype == jax.dtypes.float0 and reduced["w"].tolist() == [here.size**3] * 3
    )


@check()
def passes_through_checkpoint_scan_and_cond(here: Here) -> None:
    def layer(x):
        return jnp.sin(hvd.allreduce(jnp.sin(x), op=SUM))

    x = jnp.full(3, 0.5)
    want = jax.grad(lambda x: layer(x).sum())(x)
    np.testing.assert_allclose(
        jax.jit(jax.grad(lambda x: jax.checkpoint(layer)(x).sum()))(x), want, rtol=1e-6
    )

    def scanned(x):
        return jax.lax.scan(lambda c, _: (layer(c), None), x, None, length=2)[0].sum()

    want = jax.grad(lambda x: layer(layer(x)).sum())(x)
    np.testing.assert_allclose(jax.jit(jax.grad(scanned))(x), want, rtol=1e-6)
    branched = jax.jit(jax.grad(lambda x: jax.lax.cond(x.sum() > 0, layer, jnp.cos, x).sum()))
    np.testing.assert_allclose(branched(x), jax.grad(lambda x: layer(x).sum())(x), rtol=1e-6)


@check()
def vmap_is_refused_with_a_sentence(here: Here) -> None:
    for function in (
        lambda x: hvd.allreduce(x),
        jax.jit(lambda x: hvd.broadcast(x, 0)),
        jax.grad(lambda x: hvd.allreduce(x).sum()),
    ):
        with raises(NotImplementedError, "jax.vmap", "whole batch"):
            jax.vmap(function)(jnp.ones((2, 3)))
