"""hvdlite.jax: making ranks equal, and objects."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import hvdlite.jax as hvd
from checks import check
from checks.here import Here
from checks.jax_api import WAYS, run


@check(way=WAYS)
def broadcast_parameters_gives_all_the_roots(here: Here, way: str) -> None:
    root = here.size - 1
    tree = {
        "w": jnp.full((2, 3), float(here.rank)),
        "n": jnp.int32(here.rank),
        "none": None,
        "key": jax.random.key(here.rank),
    }
    got = run(way, lambda t: hvd.broadcast_parameters(t, root_rank=root), tree)
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(tree)
    assert (got["w"] == root).all() and int(got["n"]) == root and got["n"].dtype == jnp.int32
    assert got["key"].dtype == tree["key"].dtype
    assert (jax.random.key_data(got["key"]) == jax.random.key_data(jax.random.key(root))).all()


@check()
def broadcast_parameters_of_an_optimizers_state(here: Here) -> None:
    import optax

    params = {"w": jnp.full(3, float(here.rank)), "b": jnp.ones(2)}
    state = optax.adam(0.1).init(params)
    state = jax.tree_util.tree_map(lambda x: x + here.rank, state)
    got = hvd.broadcast_parameters(state)
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(state)
    assert all((leaf == 0).all() for leaf in jax.tree_util.tree_leaves(got))
