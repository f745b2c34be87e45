"""One use of an operation, and what follows from the operation's row for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hvdlite.base.operations import EXCHANGED, GATHERED, OF_OTHER_ROWS, SHARED, Operation
from hvdlite.base.ops import Average, Sum
from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet, global_process_set, set_id_of
from hvdlite.exceptions import HorovodInternalError


class Call(NamedTuple):
    """An operation with all that it needs beside the tensors."""

    operation: Operation
    name: str | None = None
    process_set: ProcessSet = global_process_set
    op: int = Sum
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = 0
    splits: Any = None  # of an alltoall: how many rows each member gets; None: equally many
    splits_like: Any = None  # a tensor on whose device the received splits shall be
    in_place: bool = False
    grouped: bool = False
    # The caller computes first and waits soon: no thread wakes for it where no processor is spare.
    patient: bool = False
    # Where the result is written without a copy; of a group a list. See hvdlite.h.
    output: Any = None


def keeps_input(operation: Operation, root: int) -> bool:
    """Whether this rank's result is its own tensor: only the root of a reduction gets another
    one."""
    return operation.reduces and operation.rooted and engine.rank() != root


# ---- compiled programs, where all members have equally many rows


class Compiled(NamedTuple):
    """What is known of a call when its program is compiled."""

    shapes: list[tuple[int, ...]]  # of the results
    received: list[int]  # of an alltoall: the rows from each member


def compiled(call: Call, shapes: Sequence[Sequence[int]], where: str) -> Compiled:
    """`shapes` are those of the tensors; `where` names the program in errors."""
    if call.operation.result is SHARED:
        check_scatter(call.operation, call.op)
    members = len(engine.ranks_of(set_id_of(call.process_set)))
    found = [_compiled_shape(call, shape, members, where) for shape in shapes]
    if call.operation.result is not EXCHANGED:
        return Compiled(found, [])
    return Compiled(found, [found[0][0] // members] * members)


def equal_starts(lengths: Sequence[Any], process_set: ProcessSet) -> list[Any]:
    """At which row of each gathered tensor this rank's rows begin, if all ranks have `lengths`."""
    position = engine.ranks_of(set_id_of(process_set)).index(engine.rank())
    return [position * length for length in lengths]


def _compiled_shape(call: Call, shape: Sequence[int], members: int, where: str) -> tuple[int, ...]:
    result = call.operation.result
    if keeps_input(call.operation, call.root):
        return (0,)
    if result not in OF_OTHER_ROWS:
        return tuple(shape)
    if not shape:
        raise ValueError(
            f"{call.operation.name}: a tensor without dimensions has no rows; reshape it to (1,)"
        )
    rows, *rest = shape
    if result is GATHERED:
        return (rows * members, *rest)
    if rows % members:
        raise ValueError(
            f"{call.operation.name} {where}: the first dimension must be divisible by the "
            f"{members} members of the process set, but it is {rows}"
        )
    return (rows // members if result is SHARED else rows, *rest)


def check_scatter(operation: Operation, op: int) -> None:
    # Horovod's class for it, though the program is at fault.
    if op not in (Average, Sum):
        error = HorovodInternalError(
            f"{operation.name}: op={op!r} is not possible; use hvd.Average or hvd.Sum"
        )
        error.retryable = False
        raise error
