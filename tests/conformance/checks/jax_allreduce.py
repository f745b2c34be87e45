"""hvdlite.jax: allreduce at once and compiled, for every dtype and in process sets, against numpy."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp

import hvdlite.jax as hvd
from checks import check
from checks.among import process_sets
from checks.here import BFLOAT16, FLOATS, INTEGERS, OPS, SHAPES, SUM, Here, adasum_tree, reference
from checks.jax_here import JAX_DTYPES, WAYS, array, arrays, run, x64


@check(seconds=60)
def every_dtype_in_every_process_set_is_numpys(here: Here) -> None:
    with x64(True), process_sets(here) as sets:
        for among, way, (label, op) in itertools.product(sets, WAYS, OPS.items()):
            if (among.members != tuple(here.ranks) or way == "at once") and label not in ("Average", "Sum"):
                continue
            kinds = list(itertools.product(JAX_DTYPES, SHAPES))
            inputs = [among.of(here.everyones(dtype, shape, label, op=op)) for dtype, shape in kinds]
            mine = arrays(each[among.mine] for each in inputs)
            reduce = functools.partial(hvd.allreduce, name=f"{way}.{label}", op=op, process_set=among.process_set)
            for each, result, given, kind in zip(inputs, run(way, reduce, mine), mine, kinds, strict=True):
                here.close(array(result), reference(each, op), f"{way} {label} of {kind}")
                assert array(given).tobytes() == each[among.mine].tobytes(), f"{way}: the input was written to"


@check(way=WAYS)
def factors_are_applied(here: Here, way: str) -> None:
    for dtypes, pre, post in ((FLOATS, 0.5, 3.0), (INTEGERS, 2.0, 0.25)):
        inputs = [here.everyones(dtype, (7, 5)) for dtype in dtypes]
        with x64(True):
            reduce = functools.partial(hvd.allreduce, op=SUM, prescale_factor=pre, postscale_factor=post)
            for each, got in zip(inputs, run(way, reduce, arrays(i[here.rank] for i in inputs)), strict=True):
                here.close(array(got), reference(each, SUM, pre, post), way)


@check(way=WAYS)
def adasum_is_the_formula(here: Here, way: str) -> None:
    inputs = [here.everyones(dtype, (65,)) for dtype in FLOATS]
    with x64(True):
        results = run(way, functools.partial(hvd.allreduce, op=hvd.Adasum), arrays(i[here.rank] for i in inputs))
    for each, got, tolerance in zip(inputs, results, (2e-2, 1e-1, 1e-5, 1e-12), strict=True):
        assert abs(array(got).astype("float64") - adasum_tree(each)).max() < tolerance * 16


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
    import numpy as np

    # Without x64 JAX knows no 64 bits; a Python number has a weak type, and its sum has none.
    got = run(way, lambda t: hvd.allreduce(t, op=SUM), [np.ones(3), np.ones(2, np.int64), 1.5, 3, True])
    assert [str(g.dtype) for g in got] == ["float32", "int32", "float32", "int32", "bool"]
    assert not any(g.weak_type for g in got)
    with x64(True):
        got = run(way, lambda t: hvd.allreduce(t, op=SUM), [np.ones(3), np.ones(2, np.int64)])
        assert [str(g.dtype) for g in got] == ["float64", "int64"]
    scalar = run(way, lambda x: hvd.allreduce(x, op=SUM), jnp.float32(here.rank))
    assert scalar.shape == () and float(scalar) == sum(here.ranks)


@check(form=("none", "fp16", "bf16"))
def compression_keeps_the_dtype_and_leaves_integers_alone(here: Here, form: str) -> None:
    inputs = [here.everyones(dtype, (33,)) for dtype in ("float32", "float16", "int32")]
    narrow = {"none": None, "fp16": "float16", "bf16": BFLOAT16}[form]
    travelled = [[i if narrow is None or i.dtype == "int32" else i.astype(narrow) for i in each] for each in inputs]
    for way in WAYS:
        reduce = functools.partial(hvd.allreduce, op=SUM, compression=getattr(hvd.Compression, form))
        for each, sent, got in zip(
            inputs, travelled, run(way, reduce, arrays(i[here.rank] for i in inputs)), strict=True
        ):
            here.close(array(got), reference(sent, SUM).astype(each[0].dtype), f"{form} of {each[0].dtype}, {way}")


@check()
def arrays_on_several_devices_come_back_to_them(here: Here) -> None:
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices()[:1], "x")
    x = jax.device_put(jnp.ones((4, 2)), NamedSharding(mesh, PartitionSpec("x")))
    got = hvd.allreduce(x, op=SUM)
    assert got.sharding == x.sharding and (got == here.size).all()
