"""The operations on tensors, and one use of such an operation.

A row here has what Python must know of an operation; csrc/base/ops.def has the same for the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hvdlite.base.ops import Kind, Sum
from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet, global_process_set

# What a result's shape is.
SAME = "same"  # the input's
GATHERED = "gathered"  # the rows of all members, one member after the other
EXCHANGED = "exchanged"  # the rows that all members have sent here; how many each has, beside it
SHARED = "shared"  # this member's part of the rows
AT_ROOT = "at root"  # the input's at the root; elsewhere the result is the input, and the core's is empty


@dataclass(frozen=True, slots=True)
class Operation:
    kind: int
    name: str
    result: str
    reduces: bool = False  # takes a reduction and factors
    rooted: bool = False  # takes a root
    groups: bool = False  # takes several tensors, which become ready and fail together


ALLREDUCE = Operation(Kind.ALLREDUCE, "allreduce", SAME, reduces=True, groups=True)
ALLGATHER = Operation(Kind.ALLGATHER, "allgather", GATHERED, groups=True)
BROADCAST = Operation(Kind.BROADCAST, "broadcast", SAME, rooted=True)
ALLTOALL = Operation(Kind.ALLTOALL, "alltoall", EXCHANGED)
REDUCESCATTER = Operation(Kind.REDUCESCATTER, "reducescatter", SHARED, reduces=True, groups=True)
REDUCE = Operation(Kind.REDUCE, "reduce", AT_ROOT, reduces=True, rooted=True)

OPERATIONS = (ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER, REDUCE)


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
    """Whether this rank's result is its own tensor."""
    return operation.result is AT_ROOT and engine.rank() != root


def equal_rows(rows: int, members: int, call: Call, where: str) -> int:
    """The rows of each member, where all must have equally many."""
    if rows % members:
        raise ValueError(
            f"{call.operation.name} {where}: the first dimension must be divisible by the {members} "
            f"members of the process set, but it is {rows}"
        )
    return rows // members


def compiled_shape(call: Call, shape: Sequence[int], members: int, where: str) -> tuple[int, ...]:
    """The result's shape in a compiled program, where all members have equally many rows.

    `where` names the program in errors.
    """
    result = call.operation.result
    if result is SAME:
        return tuple(shape)
    if result is AT_ROOT:
        return (0,) if keeps_input(call.operation, call.root) else tuple(shape)
    if not shape:
        raise ValueError(f"{call.operation.name}: a tensor without dimensions has no rows; reshape it to (1,)")
    rows, *rest = shape
    if result is GATHERED:
        return (rows * members, *rest)
    part = equal_rows(rows, members, call, where)
    return (part if result is SHARED else rows, *rest)
