"""One use of an operation, and what follows from the operation's row for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hvdlite.base.operations import GATHERED, OF_OTHER_ROWS, SHARED, Operation
from hvdlite.base.ops import Sum
from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet, global_process_set


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


def keeps_input(operation: Operation, root: int) -> bool:
    """Whether this rank's result is its own tensor: only the root of a reduction gets another
    one."""
    return operation.reduces and operation.rooted and engine.rank() != root


def equal_rows(rows: int, members: int, call: Call, where: str) -> int:
    """The rows of each member, where all must have equally many."""
    if rows % members:
        raise ValueError(
            f"{call.operation.name} {where}: the first dimension must be divisible by the "
            f"{members} members of the process set, but it is {rows}"
        )
    return rows // members


def compiled_shape(call: Call, shape: Sequence[int], members: int, where: str) -> tuple[int, ...]:
    """The result's shape in a compiled program, where all members have equally many rows.

    `where` names the program in errors.
    """
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
    part = equal_rows(rows, members, call, where)
    return (part if result is SHARED else rows, *rest)
