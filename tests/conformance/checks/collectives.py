"""Every operation, in every way to call it, for every dtype and in process sets, against numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from tier import some_pairs

from checks import check, needs
from checks.among import Among, Case, process_sets
from checks.api import api, hvd
from checks.here import (
    ADASUM,
    AVERAGE,
    BFLOAT16,
    FLOATS,
    OPS,
    SHAPES,
    SUM,
    Here,
    adasum_tree,
    dtype_of,
    reference,
)

Shape = tuple[int, ...]


def reductions(
    among: Among, op: int, shapes: tuple[Shape, ...], pre: float = 1.0, post: float = 1.0
) -> Iterator[Case]:
    """The inputs of all dtypes and shapes with the whole reduction of each."""
    for dtype, shape in api.kinds(shapes):
        if (pre, post) == (1.0, 1.0) or not (
            dtype == "bool" or (pre < 0 and dtype.startswith("u"))
        ):
            inputs = among.of(among.here.everyones(dtype, shape, op, op=op))
            yield inputs, reference(inputs, op, pre, post)


@check(seconds=60, tags=["engine", "essential"])
def allreduce_is_numpys_in_every_form_dtype_and_process_set(here: Here) -> None:
    with process_sets(here) as sets:
        for among, op in product(sets, OPS.values()):
            cases = list(reductions(among, op, SHAPES))
            for way in api.ways("allreduce"):
                if not way.traced or op == AVERAGE or (among.is_everyone and not way.grouped):
                    among.expect(way, cases, op=op)
    here.settle()


@check(seconds=60, tags=["essential"])
def factors_are_applied_before_and_after_in_every_form(here: Here) -> None:
    # A third is no float of 32 bits.
    factors = (
        (1 / 3, 0.7),
        (0.5, 1.0),
        (1.0, 0.25),
        (2.0, 0.125),
        (1 / 3, 3.0),
        (1.0, 1 / here.size),
        (-1.5, 0.7),
    )
    with process_sets(here) as sets:
        for among, op, (pre, post) in product(sets, OPS.values(), factors):
            cases = list(reductions(among, op, ((), (5,), (129, 7)), pre, post))
            common = op == SUM and (pre, post) in factors[:2]
            for number, way in enumerate(api.ways("allreduce")):
                if not number or (common and (not way.traced or pre == 1 / 3)):
                    among.expect(way, cases, op=op, prescale_factor=pre, postscale_factor=post)
    here.settle()


@check(seconds=30)
def adasum_is_the_formula(here: Here) -> None:
    tolerances = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-5, "float64": 1e-12}
    for way in api.ways("allreduce"):
        shapes = ((65,),) if way.traced else ((1,), (3,), (7, 5), (), (0,), (70001,))
        inputs = [
            here.everyones(dtype, shape) for dtype, shape in api.kinds(shapes) if dtype in FLOATS
        ]
        results = way.run([api.tensor(each[here.rank]) for each in inputs], op=ADASUM)
        for each, result in zip(inputs, results, strict=True):
            got = api.array(result)
            assert got.shape == each[0].shape and got.dtype == each[0].dtype
            here.saw(got)
            near = tolerances[str(got.dtype)]
            np.testing.assert_allclose(
                got.astype(np.float64),
                adasum_tree(each),
                rtol=near,
                atol=near * 16 * max(1, here.size - 1),
            )
    here.settle()


# Number of rows by rank and size: alike, some, none on the first, on the last alone, none at all,
# and many.
ROWS: tuple[Callable[[int, int], int], ...] = (
    lambda rank, size: 2,
    lambda rank, size: (rank * 3) % 4,
    lambda rank, size: 4 if rank else 0,
    lambda rank, size: 5 if rank == size - 1 else 0,
    lambda rank, size: 0,
    lambda rank, size: 1 + 3000 * rank,
)


@check(seconds=60, tags=["engine", "essential"])
def allgather_concatenates_what_differs_in_its_first_dimension(here: Here) -> None:
    with process_sets(here) as sets:
        for among, (number, rows) in product(sets, enumerate(ROWS)):
            pieces = [
                [here.data(dtype, (rows(r, here.size), *tail), r, *tail) for r in among.members]
                for dtype, tail in api.kinds(((), (2, 0), (3,), (1, 5)))
            ]
            for way in api.ways("allgather"):
                if not way.traced or number == (0 if way.fixed else 1):
                    among.expect(way, [(each, np.concatenate(each)) for each in pieces], exact=True)
    here.settle()


@check(seconds=60, tags=["essential"])
def broadcast_gives_all_the_roots_tensor(here: Here) -> None:
    with process_sets(here) as sets:
        for among, way in product(sets, api.ways("broadcast")):
            for number, root in enumerate(among.members):
                if way.traced and number:
                    break
                inputs = [here.everyones(dtype, shape, root) for dtype, shape in api.kinds(SHAPES)]
                among.expect(
                    way,
                    [(among.of(each), each[root]) for each in inputs],
                    exact=True,
                    root_rank=root,
                )
    here.settle()


@check(seconds=60, tags=["essential"])
def alltoall_without_splits_sends_equal_parts(here: Here) -> None:
    with process_sets(here) as sets:
        for among, way, rows in product(sets, api.ways("alltoall"), (2, 0)):
            if way.traced and not rows:
                continue
            part = slice(rows * among.mine, rows * (among.mine + 1))
            inputs = [
                [here.data(dtype, (rows * len(among.members), *tail), r) for r in among.members]
                for dtype, tail in api.kinds(((), (2, 0), (3,)))
            ]
            cases = [(each, np.concatenate([one[part] for one in each])) for each in inputs]
            for received in among.expect(way, cases, exact=True):  # of the asynchronous form
                assert api.array(received).tolist() == [rows] * len(among.members)


# How many rows member i sends to member j of n.
SPLITS: tuple[Callable[[int, int, int], int], ...] = (
    lambda i, j, n: i + j,
    lambda i, j, n: 1 + (i + j) % 3,
    lambda i, j, n: i if j == n - 1 else 0,
    lambda i, j, n: 0,
    lambda i, j, n: i * 500 + j * 7,
    lambda i, j, n: 5 if i == j else 0,
)


@check(seconds=60, tags=["essential"])
def alltoall_with_splits_says_what_came_from_whom(here: Here) -> None:
    with process_sets(here) as sets:
        for among, (number, split) in product(sets, enumerate(SPLITS)):
            n, mine = len(among.members), among.mine
            splits = [[split(i, j, n) for j in range(n)] for i in range(n)]
            starts = [np.cumsum([0, *row]) for row in splits]
            spare = 2 if number == 1 else 0  # these rows go nowhere
            cases: list[Case] = []
            for dtype, tail in api.kinds(((2, 2), (0,), (3,))):
                inputs = [
                    here.data(dtype, (sum(splits[i]) + spare, *tail), r)
                    for i, r in enumerate(among.members)
                ]
                cases.append(
                    (
                        inputs,
                        np.concatenate(
                            [x[s[mine] : s[mine + 1]] for x, s in zip(inputs, starts, strict=True)]
                        ),
                    )
                )
            for way in api.ways("alltoall"):
                if way.fixed or way.grouped or (way.traced and number != 1):
                    continue
                for form in api.splits(splits[mine]):
                    for received in among.expect(way, cases, exact=True, splits=form):
                        rows = api.array(received)
                        assert (
                            rows.tolist() == [row[mine] for row in splits]
                            and rows.dtype == np.int32
                        )


@check(seconds=60, tags=["engine", "essential"])
def reducescatter_gives_each_its_rows_of_the_result(here: Here) -> None:
    with process_sets(here) as sets:
        for among, label, pre in product(sets, api.scatters, (1.0, 0.5, 1 / 3)):
            n, op = len(among.members), OPS[label]
            shapes = (
                (n,),
                (1, 4),
                (n - 1, 2, 2),
                (0, 3),
                (n, 0),
                (4099, 3),
                (2 * n + 1,),
                (2 * n, 3),
            )
            whole = reductions(among, op, shapes, pre, 3.0 if pre < 1.0 else 1.0)
            cases = [(inputs, np.array_split(result, n)[among.mine]) for inputs, result in whole]
            even = [case for case in cases if len(case[0][0]) % n == 0]
            for number, way in enumerate(api.ways("reducescatter")):
                if not number or (pre == 1 / 3 and (op == SUM or not way.traced)):
                    how = {"prescale_factor": pre, "postscale_factor": 3.0 if pre < 1.0 else 1.0}
                    among.expect(way, even if way.fixed else cases, op=op, **how)


@check(seconds=60)
def reduce_gives_the_root_the_reduction_and_others_their_own(here: Here) -> None:
    with process_sets(here) as sets:
        for among, (number, op) in product(sets, enumerate(OPS.values())):
            root = among.members[number % len(among.members)]
            whole = reductions(among, op, ((1,), (7,), (0, 3), (4099, 3), (0,), (2, 3)))
            cases = [
                (inputs, result if here.rank == root else inputs[among.mine])
                for inputs, result in whole
            ]
            for way in api.ways("reduce"):
                if not way.traced or op in (AVERAGE, SUM):
                    among.expect(way, cases, may_be_given=True, root_rank=root, op=op)


@check()
def the_default_is_the_average(here: Here) -> None:
    inputs = here.everyones("float32", (2 * here.size, 2))
    average = reference(inputs, AVERAGE)
    wanted = {
        "allreduce": average,
        "reducescatter": average[2 * here.rank : 2 * here.rank + 2],
        "reduce": average if here.rank == 0 else inputs[here.rank],
    }
    for operation, want in wanted.items():
        root = {"root_rank": 0} if operation == "reduce" else {}
        for way in api.ways(operation):
            for result in way.run([api.tensor(inputs[here.rank])], **root):
                here.close(api.array(result), want, f"{operation} {way.label}")


@check()
def an_empty_group_is_an_empty_list(here: Here) -> None:
    for operation in ("allreduce", "allgather", "reducescatter"):
        for way in api.ways(operation):
            assert list(way.run([])) == []


@check(seconds=30, tags=["essential"])
def compression_keeps_the_dtype_and_leaves_integers_alone(here: Here) -> None:
    needs(any(way.compresses for way in api.ways("allreduce")), "compression")
    for form, narrow in (("none", None), ("fp16", np.dtype("float16")), ("bf16", BFLOAT16)):
        inputs = [
            here.everyones(dtype, (here.size, 3))
            for dtype in ("float64", "float32", "float16", "int32")
        ]
        sent = [
            [i if narrow is None or i.dtype == "int32" else i.astype(narrow) for i in each]
            for each in inputs
        ]
        summed = [
            reference(s, SUM).astype(each[0].dtype) for s, each in zip(sent, inputs, strict=True)
        ]
        rows = [each[here.rank : here.rank + 1] for each in summed]
        for operation, want in (("allreduce", summed), ("reducescatter", rows)):
            for way in api.ways(operation):
                if way.compresses:
                    how = {"op": SUM, "compression": getattr(hvd.Compression, form)}
                    Among.all_of(here).expect(way, list(zip(inputs, want, strict=True)), **how)


def _large(here: Here, operation: str, dtype: str, count: int) -> tuple[Case, dict[str, object]]:
    """About `count` elements of every rank, what the operation gives this one, and its
    arguments."""
    n, me, root = here.size, here.rank, here.size - 1
    splits = [[count // n + (i + j) % 3 for j in here.ranks] for i in here.ranks]
    rows = {
        "allgather": [count if r == root else 1000 * r for r in here.ranks],
        "alltoall": [sum(r) for r in splits],
    }
    inputs = [
        here.data(dtype, (each,), r) for r, each in enumerate(rows.get(operation, [count] * n))
    ]
    if operation == "allgather":
        return (inputs, np.concatenate(inputs)), {}
    if operation == "broadcast":
        return (inputs, inputs[root]), {"root_rank": root}
    if operation == "alltoall":
        parts = [each[sum(row[:me]) :][: row[me]] for each, row in zip(inputs, splits, strict=True)]
        return (inputs, np.concatenate(parts)), {"splits": splits[me]}
    whole = reference(inputs, SUM)
    if operation == "reduce":
        return (inputs, whole if me == root else inputs[me]), {"root_rank": root, "op": SUM}
    return (inputs, np.array_split(whole, n)[me] if operation == "reducescatter" else whole), {
        "op": SUM
    }


@check(
    operation=("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "reduce"),
    seconds=60,
)
def what_crosses_chunks_is_numpys(here: Here, operation: str) -> None:
    ways = [way for way in api.ways(operation) if way.label in ("plain", "in place")]
    needs(ways, "operations that run without a program")
    dtypes = ("bool", "int8", "bfloat16", "float16", "float32", "float64")
    for dtype, size in some_pairs(dtypes, ("beyond a chunk", "64 Ki", "several chunks")):
        item = dtype_of(dtype).itemsize
        # One element beyond a chunk of 256 KiB, and several MiB of an odd number of elements.
        count = {
            "beyond a chunk": 262144 // item + 1,
            "64 Ki": 262144 // 4 + 1,
            "several chunks": (3 << 20) // item + 7,
        }[size]
        case, how = _large(here, operation, dtype, count)
        for way in ways:
            Among.all_of(here).expect(way, [case], may_be_given=True, **how)
    if operation in ("allreduce", "allgather", "broadcast"):
        here.settle()
