"""hvdlite.jax: the gradient of each collective is the rule of hvdlite/core/gradients.py, at once and compiled."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hvdlite.jax as hvd
from checks import check
from checks.among import Among, process_sets
from checks.here import AVERAGE, OPS, PRODUCT, SUM, Here, raises, reference
from checks.jax_here import WAYS, array, run, x64

SHAPE = (6, 2)


def _inputs(here: Here, among: Among, *key: object, shape: tuple[int, ...] = SHAPE) -> list[np.ndarray]:
    return among.of(here.everyones("float64", shape, *key))


def _pull(way: str, function, x, gradient):
    """The gradient of `x`, given that of function(x)."""
    return array(run(way, lambda x, g: jax.vjp(function, x)[1](g)[0], jnp.asarray(x), jnp.asarray(gradient)))


@check(way=WAYS, seconds=30)
def of_allreduce_is_the_same_allreduce(here: Here, way: str) -> None:
    with x64(True), process_sets(here) as sets:
        for among in sets:
            functions, values, gradients, want = {}, {}, {}, {}
            for label, op in OPS.items():
                x = _inputs(here, among, label, "x") if op != PRODUCT else [np.ones(SHAPE)] * len(among.members)
                dy = _inputs(here, among, label, "dy")
                how = {"op": op, "prescale_factor": 0.5, "postscale_factor": 4.0, "process_set": among.process_set}
                functions[label] = functools.partial(_doubled, label, how)
                functions[f"{label} in a group"] = functools.partial(_doubled_in_a_group, how)
                for form in (label, f"{label} in a group"):
                    values[form], gradients[form] = jnp.asarray(x[among.mine]), jnp.asarray(dy[among.mine])
                    want[form] = reference(dy, op, 0.5, 4.0) * 2

            def all_of_them(values, gradients, functions=functions):
                return {
                    form: jax.vjp(function, values[form])[1](gradients[form])[0] for form, function in functions.items()
                }

            for form, got in run(way, all_of_them, values, gradients).items():
                here.close(array(got), want[form], form, exact=False)


def _doubled(name: str, how: dict[str, Any], x):
    return hvd.allreduce(x * 2, name, **how)


def _doubled_in_a_group(how: dict[str, Any], x):
    return hvd.allreduce([x * 2, x * 3], **how)[0]


@check(way=WAYS)
def of_a_gradient_exists(here: Here, way: str) -> None:
    def loss(x):
        return hvd.allreduce(x**3, op=SUM).sum()

    x = jnp.full((3,), 2.0 + here.rank)
    np.testing.assert_allclose(run(way, jax.grad(loss), x), here.size * 3 * x**2)
    np.testing.assert_allclose(run(way, jax.grad(lambda x: jax.grad(loss)(x).sum()), x), here.size * 6 * x)


@check(way=WAYS)
def of_allgather_is_the_average_of_ones_own_rows(here: Here, way: str) -> None:
    with x64(True), process_sets(here) as sets:
        for among in sets:
            sizes = [1 + (r * 2) % 3 if way == "at once" else 2 for r in among.members]
            start = sum(sizes[: among.mine])
            x = here.data("float64", (sizes[among.mine], 2), here.rank)
            gradients = _inputs(here, among, shape=(sum(sizes), 2))
            want = reference(gradients, AVERAGE)[start : start + sizes[among.mine]]
            for function in (
                lambda x: hvd.allgather(x, "rows", process_set=among.process_set),  # noqa: B023
                lambda x: hvd.allgather([x, x], process_set=among.process_set)[1],  # noqa: B023
            ):
                here.close(_pull(way, function, x, gradients[among.mine]), want, exact=False)


def _broadcast_double(root: int, process_set: hvd.ProcessSet, x):
    return hvd.broadcast(x * 2, root, process_set=process_set)


@check(way=WAYS)
def of_broadcast_is_the_average_on_the_root_and_nothing_elsewhere(here: Here, way: str) -> None:
    with x64(True), process_sets(here) as sets:
        for among in sets:
            root = among.members[-1]
            gradients = _inputs(here, among, "dy")
            x = here.data("float64", SHAPE, here.rank)
            doubled = functools.partial(_broadcast_double, root, among.process_set)
            got = _pull(way, doubled, x, gradients[among.mine])
            want = 2 * reference(gradients, AVERAGE) if here.rank == root else np.zeros(SHAPE)
            here.close(got, want, exact=False)


@check(way=WAYS)
def of_alltoall_is_the_way_back(here: Here, way: str) -> None:
    with x64(True), process_sets(here) as sets:
        for among in sets:
            n = len(among.members)
            x = here.data("float64", (2 * n, 2), here.rank)

            def loss(x, among=among):
                y = hvd.alltoall(x * 3, process_set=among.process_set)
                return (jax.lax.stop_gradient(y) * y).sum()  # every row's gradient is its own value

            here.close(array(run(way, jax.grad(loss), jnp.asarray(x))), 9 * x, exact=False)
            if way == "at once":
                splits = [[1 + (i + j) % 2 for j in range(n)] for i in range(n)]
                x = here.data("float64", (sum(splits[among.mine]) + 2, 2), here.rank)
                x[-2:] = 0  # these go nowhere

                def uneven(x, among=among, splits=splits):
                    y, _ = hvd.alltoall(x * 3, splits[among.mine], process_set=among.process_set)
                    return (jax.lax.stop_gradient(y) * y).sum()

                here.close(array(jax.grad(uneven)(jnp.asarray(x))), 9 * x, exact=False)


@check(op=("Average", "Sum"))
def of_reducescatter_is_the_allgather(here: Here, op: str) -> None:
    with x64(True), process_sets(here) as sets:
        for among, way in itertools.product(sets, WAYS):
            n = len(among.members)
            rows = 2 * n + (way == "at once")
            sizes = [rows // n + (i < rows % n) for i in range(n)]
            x = here.data("float64", (rows, 2), here.rank)
            gradients = [here.data("float64", (size, 2), r, "dy") for size, r in zip(sizes, among.members, strict=True)]
            how = {"op": getattr(hvd, op), "prescale_factor": 0.5, "postscale_factor": 3.0}
            got = _pull(
                way,
                lambda x: hvd.reducescatter(x, "part", process_set=among.process_set, **how),  # noqa: B023
                x,
                gradients[among.mine],
            )
            here.close(got, np.concatenate(gradients) * 1.5 * (n if op == "Sum" else 1), exact=False)


@check(op=("Average", "Sum"))
def of_reduce_is_the_broadcast_of_the_roots_and_ones_own_elsewhere(here: Here, op: str) -> None:
    with x64(True), process_sets(here) as sets:
        for among, way in itertools.product(sets, WAYS):
            root = among.members[-1]
            x = here.data("float64", (3, 2), here.rank)
            gradients = [here.data("float64", (3, 2), r, "dy") for r in among.members]
            how = {"op": getattr(hvd, op), "prescale_factor": 0.5, "postscale_factor": 3.0}
            got = _pull(
                way,
                lambda x: hvd.reduce(x, root, "to the root", process_set=among.process_set, **how),  # noqa: B023
                x,
                gradients[among.mine],
            )
            want = gradients[-1] * 1.5 * (len(among.members) if op == "Sum" else 1)
            here.close(got, want + gradients[among.mine] * (here.rank != root), exact=False)


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
    assert reduced["count"].dtype == jax.dtypes.float0 and reduced["w"].tolist() == [here.size**3] * 3


@check(way=WAYS)
def passes_through_compression(here: Here, way: str) -> None:
    got = run(way, jax.grad(lambda x: hvd.allreduce(x, op=SUM, compression=hvd.Compression.bf16).sum()), jnp.ones(4))
    assert got.dtype == jnp.float32 and got.tolist() == [here.size] * 4


@check()
def passes_through_checkpoint_scan_and_cond(here: Here) -> None:
    def layer(x):
        return jnp.sin(hvd.allreduce(jnp.sin(x), op=SUM))

    x = jnp.full(3, 0.5)
    want = jax.grad(lambda x: layer(x).sum())(x)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: jax.checkpoint(layer)(x).sum()))(x), want, rtol=1e-6)

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
