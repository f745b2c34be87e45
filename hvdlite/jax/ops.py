"""Collectives on pytrees of JAX arrays: at once, and inside jax.jit, jax.grad, jax.lax.scan.

All leaves of a tree travel together. Names, factors, reductions and process sets are documented in
hvdlite.core.arrays.ops; what an operation does to a gradient, in hvdlite.core.gradients. Numbers
are taken for arrays; gradients of integers (float0) are left alone. In a compiled function a call
without a name is named after the line of the program that makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import index
from typing import Any

from hvdlite.adapter.compression import Method, compressed
from hvdlite.base.operations import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BROADCAST,
    EXCHANGED,
    REDUCE,
    REDUCESCATTER,
)
from hvdlite.base.ops import Adasum, Average, Max, Min, Product, Sum, reduction_of
from hvdlite.core.arrays import ops as on_arrays
from hvdlite.core.collectives import Collectives
from hvdlite.core.gradients import Rule
from hvdlite.core.operations import Call, compiled, equal_starts
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.jax import trace, traced
from hvdlite.jax.compression import Compression
from hvdlite.jax.framework import FRAMEWORK, map_leaves

__all__ = [
    "Adasum", "Average", "Max", "Min", "Product", "Sum",
    "allgather", "allreduce", "alltoall", "barrier", "broadcast", "grouped_allgather",
    "grouped_allreduce", "grouped_reducescatter", "join", "reduce", "reducescatter",
]  # fmt: skip

Tree = Any
Array = Any


class JaxCollectives(Collectives):
    """At once where the arrays have values, as an operation of the program where they are traced.

    In a program shapes are known beforehand: there all ranks have equally many rows, and alltoall
    has no splits.
    """

    def run(self, call: Call, tensors: Sequence[Array]) -> tuple[Any, ...]:
        return self._emit(call, tensors) if trace.is_tracing() else super().run(call, tensors)

    def as_splits(self, received: Array) -> Any:
        return None if trace.is_tracing() else super().as_splits(received)

    def starts(
        self, lengths: Sequence[int], name: str | None, process_set: ProcessSet
    ) -> Sequence[int]:
        if not trace.is_tracing():
            return super().starts(lengths, name, process_set)
        return equal_starts(lengths, process_set)

    def _emit(self, call: Call, tensors: Sequence[Array]) -> tuple[Any, ...]:
        for tensor in tensors:
            FRAMEWORK.check(tensor)
        if call.splits is not None:
            raise ValueError(
                "alltoall with splits has a result whose shape only the other ranks know, which a "
                "compiled function cannot have: call it outside jax.jit"
            )
        known = compiled(call, [tensor.shape for tensor in tensors], "in a compiled function")
        results = tuple(traced.emit(call, tensors, known.shapes)) if tensors else ()
        if call.operation.result is not EXCHANGED:
            return results
        return *results, self.framework.integers(known.received, call.splits_like)


OPS = JaxCollectives(FRAMEWORK)


def allreduce(tree: Tree, name: str | None = None, *, op: int = Average,
              compression: Any = Compression.none, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> Tree:  # fmt: skip
    """Combines the arrays of all ranks element by element; the same bits on every rank."""
    op = reduction_of(None, op)
    call = Call(ALLREDUCE, name, process_set, op, prescale_factor, postscale_factor)
    return _together(call, tree, compression)


def allgather(
    tree: Tree, name: str | None = None, *, process_set: ProcessSet = global_process_set
) -> Tree:
    """Concatenates the arrays of all ranks along their first dimension, which may differ from rank
    to rank; in a compiled function it may not."""
    return _together(Call(ALLGATHER, name, process_set), tree)


def broadcast(tree: Tree, root_rank: int, name: str | None = None, *,
              process_set: ProcessSet = global_process_set) -> Tree:  # fmt: skip
    """The arrays of `root_rank`, which is a global rank in process sets, too. Shapes must be equal
    on all ranks."""
    return _each(Call(BROADCAST, name, process_set, root=root_rank), tree)


def alltoall(tree: Tree, splits: Sequence[int] | None = None, name: str | None = None, *,
             process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """Sends the i-th part of the first dimension to rank i; returns the parts received, in the
    order of the ranks.

    `splits` says how many rows each rank gets; then the result is (output, received splits), `tree`
    must be one array, and the call cannot be in a compiled function.
    """
    if splits is None:
        return _each(Call(ALLTOALL, name, process_set), tree)
    received: list[Array] = []

    def send(arrays: list[Array]) -> list[Array]:
        if len(arrays) != 1:
            raise ValueError(f"alltoall with splits takes one array, not a tree of {len(arrays)}")
        output, parts = run(Call(ALLTOALL, name, process_set, splits=_whole(splits)), arrays)
        received.append(parts)
        return [output]

    return map_leaves(tree, send), received[0]


def reducescatter(tree: Tree, name: str | None = None, *, op: int = Average,
                  compression: Any = Compression.none, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0,
                  process_set: ProcessSet = global_process_set) -> Tree:  # fmt: skip
    """Reduces the arrays of all ranks and returns this rank's part of the rows.

    If the rows do not divide evenly, lower ranks get one more; in a compiled function they must
    divide evenly.
    """
    op = reduction_of(None, op)
    call = Call(REDUCESCATTER, name, process_set, op, prescale_factor, postscale_factor)
    return _together(call, tree, compression)


def reduce(tree: Tree, root_rank: int, name: str | None = None, *, op: int = Average,
           compression: Any = Compression.none, prescale_factor: float = 1.0,
           postscale_factor: float = 1.0,
           process_set: ProcessSet = global_process_set) -> Tree:  # fmt: skip
    """Combines the arrays of all ranks on `root_rank`, a global rank; the other ranks get their own
    arrays back.

    Moves half of the bytes that allreduce() moves between ranks.
    """
    op = reduction_of(None, op)
    call = Call(REDUCE, name, process_set, op, prescale_factor, postscale_factor, root_rank)
    return _each(call, tree, compression)


# With pytrees a group is nothing special. Under these names the other frameworks have it.
grouped_allreduce = allreduce
grouped_allgather = allgather
grouped_reducescatter = reducescatter


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks have called it. Not for compiled functions, whose collectives come in
    their order anyway."""
    _not_traced("barrier")
    on_arrays.barrier(process_set)


def join() -> int:
    """Says that this rank has no more data, and waits until the others have none either; until then
    it adds zeros to their allreduces. The rank that joined last."""
    _not_traced("join")
    return on_arrays.join()


def run(call: Call, arrays: list[Array], compression: Any = Compression.none) -> list[Array]:
    """A collective that can be differentiated, on arrays."""
    if isinstance(compression, Method):
        raise ValueError(
            f"{compression} has a memory, which a function of arrays cannot keep: pass it to "
            "hvd.distributed(), whose state has room for it"
        )
    if call.name is None and trace.is_tracing():
        call = call._replace(name=traced.place())
    send = partial(FRAMEWORK.differentiable, Rule(OPS, call))
    return compressed(compression, arrays, call.name, send)


def _together(call: Call, tree: Tree, compression: Any = Compression.none) -> Tree:
    """All leaves as one group."""
    return map_leaves(
        tree, lambda arrays: run(call._replace(grouped=len(arrays) > 1), arrays, compression)
    )


def _each(call: Call, tree: Tree, compression: Any = Compression.none) -> Tree:
    """The leaves one by one, each with a name of its own."""
    name = traced.place() if call.name is None and trace.is_tracing() else call.name

    def send(arrays: list[Array]) -> list[Array]:
        several = len(arrays) > 1 and name is not None
        names = [f"{name}.{i}" if several else name for i in range(len(arrays))]
        return [
            run(call._replace(name=one), [array], compression)[0]
            for one, array in zip(names, arrays, strict=True)
        ]

    return map_leaves(tree, send)


def _not_traced(what: str) -> None:
    if trace.is_tracing():
        raise ValueError(
            f"hvd.{what}() would run while the function is compiled, not when it runs: call it "
            "outside jax.jit"
        )


def _whole(splits: Sequence[int]) -> list[int]:
    try:
        return [index(rows) for rows in splits]
    except TypeError:
        raise ValueError(f"alltoall: splits must be whole numbers, not {splits}") from None
