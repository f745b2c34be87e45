"""The operations, with what Python must know of their rows in csrc/base/ops.def."""

from __future__ import annotations

# What an operation gives each member of the process set.
NONE = "none"  # no tensor
SAME = "same"  # a tensor of the input's shape
GATHERED = "gathered"  # the rows of all members, one member after the other
EXCHANGED = "exchanged"  # the rows that all members have sent here; how many each has, beside it
SHARED = "shared"  # this member's part of the rows
AT_ROOT = "at root"  # a tensor of the input's shape at the root; the core's is empty elsewhere

#: Results that may have other rows than the input.
OF_OTHER_ROWS = (GATHERED, EXCHANGED, SHARED)


class Operation:
    """`reduces`: takes a reduction and factors. `rooted`: takes a root. `groups`: has functions for
    several tensors, which become ready and fail together."""

    # A NamedTuple's fields cost twice as much to read, a dataclass costs 5 ms to import.
    __slots__ = ("groups", "kind", "name", "reduces", "result", "rooted")

    def __init__(
        self, kind: int, name: str, result: str = NONE, reduces: bool = False,
        rooted: bool = False, groups: bool = False,
    ) -> None:  # fmt: skip
        self.kind, self.name, self.result = kind, name, result
        self.reduces, self.rooted, self.groups = reduces, rooted, groups

    def __repr__(self) -> str:
        return f"Operation({self.kind}, {self.name!r})"

    def functions(self) -> list[str]:
        """The names of its functions on arrays."""
        groups = ("", "grouped_") if self.groups else ("",)
        ends = ("", "_async", "_", "_async_") if self.result is SAME else ("", "_async")
        return [f"{group}{self.name}{end}" for group in groups for end in ends]


ALLREDUCE = Operation(0, "allreduce", SAME, reduces=True, groups=True)
ALLGATHER = Operation(1, "allgather", GATHERED, groups=True)
BROADCAST = Operation(2, "broadcast", SAME, rooted=True)
ALLTOALL = Operation(3, "alltoall", EXCHANGED)
REDUCESCATTER = Operation(4, "reducescatter", SHARED, reduces=True, groups=True)
BARRIER = Operation(5, "barrier")
JOIN = Operation(6, "join")
ADD_PROCESS_SET = Operation(7, "add_process_set")
REMOVE_PROCESS_SET = Operation(8, "remove_process_set")
REDUCE = Operation(9, "reduce", AT_ROOT, reduces=True, rooted=True)
ADD_NAMED_PROCESS_SET = Operation(10, "add_named_process_set")
REMOVE_NAMED_PROCESS_SET = Operation(11, "remove_named_process_set")

ROWS = [row for row in list(globals().values()) if isinstance(row, Operation)]
#: Those on tensors.
OPERATIONS = [row for row in ROWS if row.result is not NONE]
