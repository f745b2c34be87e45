"""hvdlite.jax: allgather, broadcast, alltoall and reducescatter, at once and compiled, against numpy."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

import hvdlite.jax as hvd
from checks import check
from checks.among import process_sets
from checks.here import SUM, Here, raises, reference
from checks.jax_here import JAX_DTYPES, WAYS, array, arrays, run, x64

TAILS = ((), (3,), (2, 0), (1, 5))


@check(way=WAYS, seconds=40)
def allgather_concatenates(here: Here, way: str) -> None:
    with x64(True), process_sets(here) as sets:
        for among in sets:
            rows = {r: (r * 3) % 4 if way == "at once" else 2 for r in among.members}
            pieces = [
                [here.data(dtype, (rows[r], *tail), r) for r in among.members] for dtype in JAX_DTYPES for tail in TAILS
            ]
            gather = functools.partial(hvd.allgather, name="rows", process_set=among.process_set)
            mine = arrays(each[among.mine] for each in pieces)
            alone = run(way, functools.partial(hvd.allgather, process_set=among.process_set), mine[0])
            for result, each in zip([*run(way, gather, mine), alone], [*pieces, pieces[0]], strict=True):
                here.close(array(result), np.concatenate(each), way, exact=True)


@check(way=WAYS, seconds=40)
def broadcast_gives_the_roots_array(here: Here, way: str) -> None:
    kinds = [(dtype, shape) for dtype in JAX_DTYPES for shape in ((), (0,), (5, 3))]
    with x64(True), process_sets(here) as sets:
        for among in sets:
            root = among.members[-1]
            mine = arrays(here.data(dtype, shape, here.rank) for dtype, shape in kinds)
            send = functools.partial(hvd.broadcast, root_rank=root, name="b", process_set=among.process_set)
            for (dtype, shape), result in zip(kinds, run(way, send, mine), strict=True):
                here.close(array(result), here.data(dtype, shape, root), way, exact=True)


@check(way=WAYS, seconds=40)
def alltoall_sends_each_its_part(here: Here, way: str) -> None:
    with x64(True), process_sets(here) as sets:
        for among in sets:
            n = len(among.members)
            inputs = [[here.data(dtype, (2 * n, 3), r) for r in among.members] for dtype in JAX_DTYPES]
            send = functools.partial(hvd.alltoall, process_set=among.process_set)
            for each, got in zip(inputs, run(way, send, arrays(i[among.mine] for i in inputs)), strict=True):
                want = np.concatenate([one[2 * among.mine : 2 * among.mine + 2] for one in each])
                here.close(array(got), want, way, exact=True)


@check()
def alltoall_with_splits_says_what_came_from_whom(here: Here) -> None:
    with process_sets(here) as sets:
        for among in sets:
            n = len(among.members)
            splits = [[(i + j) % 3 for j in range(n)] for i in range(n)]
            inputs = [here.data("float32", (sum(row), 2), r) for row, r in zip(splits, among.members, strict=True)]
            parts = [np.split(each, np.cumsum(row)[:-1]) for each, row in zip(inputs, splits, strict=True)]
            mine = jnp.asarray(inputs[among.mine])
            got, received = hvd.alltoall(mine, splits[among.mine], process_set=among.process_set)
            here.close(array(got), np.concatenate([each[among.mine] for each in parts]), "splits", exact=True)
            assert received.tolist() == [row[among.mine] for row in splits] and received.dtype == jnp.int32


@check(way=WAYS, seconds=40)
def reducescatter_gives_each_its_rows(here: Here, way: str) -> None:
    with x64(True), process_sets(here) as sets:
        for among in sets:
            n = len(among.members)
            rows = 2 * n + (way == "at once")
            inputs = [[here.data(d, (rows, 3), r) for r in among.members] for d in JAX_DTYPES if d != "bool"]
            scatter = functools.partial(hvd.reducescatter, op=SUM, process_set=among.process_set)
            mine = arrays(each[among.mine] for each in inputs)
            alone = run(way, scatter, mine[0])
            for result, each in zip([*run(way, scatter, mine), alone], [*inputs, inputs[0]], strict=True):
                here.close(array(result), np.array_split(reference(each, SUM), n)[among.mine], way)


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
    # Who has compiled for another number of rows than have come is told.
    rows = 1 if here.rank == 0 else 2
    with raises(ValueError, "equally many rows", "'uneven'"), hvd.translated_errors():
        jax.jit(lambda x: hvd.allgather(x, "uneven"))(jnp.ones(rows)).block_until_ready()
