"""The gradient of each collective is the rule of hvdlite/core/gradients.py, in every form and
mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from checks import check
from checks.among import Among, process_sets
from checks.api import api, hvd
from checks.here import AVERAGE, OPS, PRODUCT, SUM, Here, dtype_of, reference

SHAPE = (6, 2)
FACTORS = {"prescale_factor": 0.5, "postscale_factor": 4.0}


class Pull(NamedTuple):
    """A function, this rank's argument, the gradient of its result, and the gradient that its
    argument is to have."""

    what: str
    function: Callable[[Any], Any]
    x: np.ndarray
    dy: np.ndarray
    want: np.ndarray


def cases(here: Here) -> Iterator[tuple[Among, str, str]]:
    """Every process set with every mode, and every dtype that has gradients."""
    with process_sets(here) as sets:
        yield from product(sets, api.modes, api.gradient_dtypes)


def expect(here: Here, mode: str, pulls: list[Pull]) -> None:
    """All of them in one program."""

    def all_of_them(*given: Any) -> list[Any]:
        pairs = zip(pulls, given[::2], given[1::2], strict=True)
        return [api.pull(pull.function, x, dy) for pull, x, dy in pairs]

    given = [api.tensor(each) for pull in pulls for each in (pull.x, pull.dy)]
    for pull, got in zip(pulls, api.run(mode, all_of_them, *given), strict=True):
        here.close(api.array(got), pull.want, f"{pull.what} of {pull.x.dtype}, {mode}", exact=False)


def expect_forms(
    here: Here, mode: str, functions: dict[str, Callable[[Any], Any]], *given: np.ndarray
) -> None:
    """All forms have the same gradient."""
    expect(here, mode, [Pull(form, function, *given) for form, function in functions.items()])


def forms(operation: str, doubled: bool = True, **how: Any) -> dict[str, Callable[[Any], Any]]:
    """The forms of an operation that have a gradient, applied to twice their argument."""
    factor = 2 if doubled else 1
    found = {"plain": lambda x: getattr(hvd, operation)(x * factor, name="named", **how)}
    if group := getattr(hvd, f"grouped_{operation}", None):
        found["grouped"] = lambda x: group([x * 3, x * factor], **how)[1]
    if api.handles and operation in ("allreduce", "broadcast"):
        found["in place"] = lambda x: getattr(hvd, f"{operation}_")(x * factor, **how)
    if api.handles and operation == "allreduce":
        found["grouped in place"] = lambda x: hvd.grouped_allreduce_([x * 3, x * factor], **how)[1]
    return found


@check(seconds=60, tags=["essential"])
def of_allreduce_is_the_same_allreduce(here: Here) -> None:
    for among, mode, dtype in cases(here):
        pulls = []
        for label, op in OPS.items():
            ones = [np.ones(SHAPE, dtype_of(dtype))] * len(among.members)
            x = ones if op == PRODUCT else among.of(here.everyones(dtype, SHAPE, label, "x"))
            dy = among.of(here.everyones(dtype, SHAPE, label, "dy"))
            want = reference(dy, op, 0.5, 4.0) * dtype_of(dtype).type(2)
            for form, function in forms(
                "allreduce", op=op, process_set=among.process_set, **FACTORS
            ).items():
                pulls.append(Pull(f"{form} {label}", function, x[among.mine], dy[among.mine], want))
        expect(here, mode, pulls)


@check(seconds=30)
def of_a_gradient_exists(here: Here) -> None:
    def cubed(x: Any) -> Any:
        return hvd.allreduce(x**3, op=SUM)

    x = np.full(3, 2.0 + here.rank)
    one, ones = np.ones(3), api.full(3, 1, "float64")
    for mode in api.modes:
        slope = partial(api.pull, cubed, dy=ones)
        pulls = [
            Pull("first", cubed, x, one, here.size * 3 * x**2),
            Pull("second", slope, x, one, here.size * 6 * x),
        ]
        expect(here, mode, pulls)


@check(seconds=60, tags=["essential"])
def of_allgather_is_the_average_of_ones_own_rows(here: Here) -> None:
    for among, mode, dtype in cases(here):
        sizes = [2 if mode in api.fixed_modes else 1 + (r * 2) % 3 for r in among.members]
        own = slice(sum(sizes[: among.mine]), sum(sizes[: among.mine + 1]))
        x = here.data(dtype, (sizes[among.mine], 2), here.rank)
        dy = among.of(here.everyones(dtype, (sum(sizes), 2)))
        want = reference(dy, AVERAGE)[own]
        functions = forms("allgather", doubled=False, process_set=among.process_set)
        expect_forms(here, mode, functions, x, dy[among.mine], want)


@check(seconds=60, tags=["essential"])
def of_broadcast_is_the_average_on_the_root_and_nothing_elsewhere(here: Here) -> None:
    for among, mode, dtype in cases(here):
        root = among.members[-1]
        dy = among.of(here.everyones(dtype, SHAPE, "dy"))
        want = reference(dy, AVERAGE) * dtype_of(dtype).type(2 * (here.rank == root))
        functions = forms("broadcast", root_rank=root, process_set=among.process_set)
        x = here.data(dtype, SHAPE, here.rank)
        expect_forms(here, mode, functions, x, dy[among.mine], want)


@check(seconds=60, tags=["essential"])
def of_alltoall_is_the_way_back(here: Here) -> None:
    for among, mode, dtype in cases(here):
        n, mine, s = len(among.members), among.mine, among.process_set
        pulls = []
        for uneven in (False,) if mode in api.fixed_modes else (False, True):
            splits = [[1 + (i + j) % 2 if uneven else 1 for j in range(n)] for i in range(n)]
            idle = 2 if uneven else 0  # rows that go nowhere
            x = here.data(dtype, (sum(splits[mine]) + idle, 2), here.rank, "x")
            # Member j has the gradients of what it received, in the order of the senders.
            dy = [
                here.data(dtype, (sum(row[j] for row in splits), 2), r, "dy")
                for j, r in enumerate(among.members)
            ]
            starts = [sum(row[j] for row in splits[:mine]) for j in range(n)]
            back = [
                each[first:][: splits[mine][j]]
                for j, (each, first) in enumerate(zip(dy, starts, strict=True))
            ]
            want = np.concatenate([*back, np.zeros((idle, 2), dtype_of(dtype))])

            def parts(x: Any, rows: list[int] = splits[mine], s: Any = s) -> Any:
                return hvd.alltoall(x, rows, process_set=s)[0]

            if mode not in api.fixed_modes or api.fixed_splits:
                pulls.append(Pull("splits", parts, x, dy[mine], want))
            if not uneven:
                pulls.append(Pull("plain", partial(hvd.alltoall, process_set=s), x, dy[mine], want))
        expect(here, mode, pulls)


@check(seconds=60, tags=["essential"])
def of_reducescatter_is_the_allgather(here: Here) -> None:
    for among, mode, dtype in cases(here):
        n, pulls = len(among.members), []
        rows = 2 * n + (mode not in api.fixed_modes)
        sizes = [len(each) for each in np.array_split(np.arange(rows), n)]
        x = here.data(dtype, (rows, 2), here.rank)
        dy = [
            here.data(dtype, (size, 2), r, "dy")
            for size, r in zip(sizes, among.members, strict=True)
        ]
        for op in (AVERAGE, SUM):
            want = np.concatenate(dy) * dtype_of(dtype).type(2 * (n if op == SUM else 1))
            functions = forms(
                "reducescatter", doubled=False, op=op, process_set=among.process_set, **FACTORS
            )
            pulls += [
                Pull(f"{form} {op}", function, x, dy[among.mine], want)
                for form, function in functions.items()
            ]
        expect(here, mode, pulls)


@check(seconds=60, tags=["essential"])
def of_reduce_is_the_broadcast_of_the_roots_and_ones_own_elsewhere(here: Here) -> None:
    for among, mode, dtype in cases(here):
        root, pulls = among.members[-1], []
        dy = among.of(here.everyones(dtype, SHAPE, "dy"))
        for op in (AVERAGE, SUM):
            factor = dtype_of(dtype).type(2 * (len(among.members) if op == SUM else 1))
            want = dy[-1] * factor + dy[among.mine] * dtype_of(dtype).type(here.rank != root)
            how = {"root_rank": root, "op": op, "process_set": among.process_set, **FACTORS}
            (function,) = forms("reduce", doubled=False, **how).values()
            x = here.data(dtype, SHAPE, here.rank)
            pulls.append(Pull(f"reduce {op}", function, x, dy[among.mine], want))
        expect(here, mode, pulls)


@check(seconds=30)
def passes_through_compression(here: Here) -> None:
    want = np.full(4, here.size, "float32")
    for mode, narrow in product(api.modes, (hvd.Compression.bf16, hvd.Compression.fp16)):
        function = partial(hvd.allreduce, op=SUM, compression=narrow)
        ones = np.ones(4, "float32")
        expect(here, mode, [Pull("compressed", function, ones, ones, want)])
