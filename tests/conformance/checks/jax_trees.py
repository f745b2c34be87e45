"""hvdlite.jax: trees, dtypes of 32 bits, devices, and what compiled functions ask of rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import hvdlite.jax as hvd
from checks import check
from checks.here import SUM, Here, raises
from checks.jax_api import WAYS, run, x64


@check(way=WAYS)
def a_tree_keeps_its_structure(here: Here, way: str) -> None:
    tree = {"w": jnp.full((2, 3), here.rank + 1.0), "b": (jnp.ones(3, jnp.int32), None), "s": 2.0}
    got = run(way, lambda t: hvd.allreduce(t, op=SUM), tree)
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(tree)
    assert (got["w"] == sum(r + 1 for r in here.ranks)).all() and (got["b"][0] == here.size).all()
    assert got["b"][0].dtype == jnp.int32 and float(got["s"]) == 2 * here.size
    assert run(way, lambda t: hvd.allreduce(t), {}) == {}
    pair = run(way, lambda a, b: hvd.grouped_allreduce([a, b], op=SUM), jnp.ones(2), jnp.ones(3))
    assert [p.tolist() for p in pair] == [[here.size] * 2, [here.size] * 3]


@check(way=WAYS)
def what_is_no_array_of_32_bits_becomes_one(here: Here, way: str) -> None:
    # Without x64 JAX knows no 64 bits; a Python number has a weak type, and its sum has none.
    got = run(
        way, lambda t: hvd.allreduce(t, op=SUM), [np.ones(3), np.ones(2, np.int64), 1.5, 3, True]
    )
    assert [str(g.dtype) for g in got] == ["float32", "int32", "float32", "int32", "bool"]
    assert not any(g.weak_type for g in got)
    with x64(True):
        got = run(way, lambda t: hvd.allreduce(t, op=SUM), [np.ones(3), np.ones(2, np.int64)])
        assert [str(g.dtype) for g in got] == ["float64", "int64"]
    scalar = run(way, lambda x: hvd.allreduce(x, op=SUM), jnp.float32(here.rank))
    assert scalar.shape == () and float(scalar) == sum(here.ranks)


@check()
def arrays_on_several_devices_come_back_to_them(here: Here) -> None:
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices()[:1], "x")
    x = jax.device_put(jnp.ones((4, 2)), NamedSharding(mesh, PartitionSpec("x")))
    got = hvd.allreduce(x, op=SUM)
    assert got.sharding == x.sharding and (got == here.size).all()


@check(min_ranks=2)
def compiled_functions_want_equally_many_rows(here: Here) -> None:
    for function, words in (
        (lambda x: hvd.alltoall(x), "divisible"),
        (lambda x: hvd.reducescatter(x), "divisible"),
        (lambda x: hvd.alltoall(x, [1] * here.size)[0], "splits"),
    ):
        with raises(ValueError, words):
            jax.jit(function)(jnp.ones(here.size + 1))
    for function in (hvd.allgather, hvd.alltoall, hvd.reducescatter):
        with raises(ValueError, "without dimensions"):
            jax.jit(function)(jnp.ones(()))
