"""Every collective on JAX arrays: at once where the arrays have values, as an operation of the program where they are traced.

In a program shapes are known beforehand: there all ranks have equally many rows, and alltoall has no splits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.adapter.collectives import Collectives, check_scatter
from hvdlite.adapter.engine import Kind, rank, ranks_of
from hvdlite.jax import trace, traced
from hvdlite.jax.framework import FRAMEWORK
from hvdlite.process_sets import ProcessSet, set_id_of

Array = Any
Shape = tuple[int, ...]


class JaxCollectives(Collectives):
    def allreduce(
        self,
        tensor: Array,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        *,
        in_place: bool = False,
        now: bool = False,
    ) -> Any:
        if not trace.is_tracing():
            return super().allreduce(tensor, name, op, prescale, postscale, process_set, now=now)
        return self._one(Kind.ALLREDUCE, tensor, _same, name, process_set, op, 0, prescale, postscale)

    def broadcast(
        self,
        tensor: Array,
        root: int,
        name: str | None,
        process_set: ProcessSet,
        *,
        in_place: bool = False,
        now: bool = False,
    ) -> Any:
        if not trace.is_tracing():
            return super().broadcast(tensor, root, name, process_set, now=now)
        return self._one(Kind.BROADCAST, tensor, _same, name, process_set, root=root)

    def allgather(self, tensor: Array, name: str | None, process_set: ProcessSet, *, now: bool = False) -> Any:
        if not trace.is_tracing():
            return super().allgather(tensor, name, process_set, now=now)
        return self._one(Kind.ALLGATHER, tensor, _together(process_set), name, process_set)

    def alltoall(
        self,
        tensor: Array,
        splits: list[int] | None,
        splits_like: Array | None,
        name: str | None,
        process_set: ProcessSet,
        *,
        now: bool = False,
    ) -> Any:
        if not trace.is_tracing():
            return super().alltoall(tensor, splits, splits_like, name, process_set, now=now)
        if splits is not None:
            raise ValueError(
                "alltoall with splits has a result whose shape only the other ranks know, which a compiled function cannot "
                "have: call it outside jax.jit"
            )
        count = len(ranks_of(set_id_of(process_set)))
        part = _part("alltoall", tensor.shape, count)
        output = self._one(Kind.ALLTOALL, tensor, _same, name, process_set)
        return output, self.framework.integers([part] * count, splits_like)

    def reducescatter(
        self,
        tensor: Array,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        *,
        now: bool = False,
    ) -> Any:
        if not trace.is_tracing():
            return super().reducescatter(tensor, name, op, prescale, postscale, process_set, now=now)
        check_scatter(op)
        shape = _own_part(process_set)
        return self._one(Kind.REDUCESCATTER, tensor, shape, name, process_set, op, 0, prescale, postscale)

    def grouped_allreduce(
        self,
        tensors: Sequence[Array],
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        *,
        in_place: bool = False,
        now: bool = False,
    ) -> Any:
        if not trace.is_tracing():
            return super().grouped_allreduce(tensors, name, op, prescale, postscale, process_set, now=now)
        return self._group(Kind.ALLREDUCE, tensors, _same, name, process_set, op, 0, prescale, postscale)

    def grouped_allgather(
        self, tensors: Sequence[Array], name: str | None, process_set: ProcessSet, *, now: bool = False
    ) -> Any:
        if not trace.is_tracing():
            return super().grouped_allgather(tensors, name, process_set, now=now)
        return self._group(Kind.ALLGATHER, tensors, _together(process_set), name, process_set)

    def grouped_reducescatter(
        self,
        tensors: Sequence[Array],
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        *,
        now: bool = False,
    ) -> Any:
        if not trace.is_tracing():
            return super().grouped_reducescatter(tensors, name, op, prescale, postscale, process_set, now=now)
        check_scatter(op)
        shape = _own_part(process_set)
        return self._group(Kind.REDUCESCATTER, tensors, shape, name, process_set, op, 0, prescale, postscale)

    def as_splits(self, received: Array) -> Any:
        return None if trace.is_tracing() else super().as_splits(received)

    def starts(self, lengths: Sequence[int], name: str | None, process_set: ProcessSet) -> Sequence[int]:
        if not trace.is_tracing():
            return super().starts(lengths, name, process_set)
        position = ranks_of(set_id_of(process_set)).index(rank())
        return [position * length for length in lengths]

    def _one(self, kind: int, tensor: Array, shape: Callable[[Shape], Shape], *how: Any, **more: Any) -> Array:
        self.framework.check(tensor)
        return traced.call(kind, [tensor], [shape(tensor.shape)], *how, **more)[0]

    def _group(
        self, kind: int, tensors: Sequence[Array], shape: Callable[[Shape], Shape], *how: Any
    ) -> tuple[Array, ...]:
        for tensor in tensors:
            self.framework.check(tensor)
        return tuple(traced.call(kind, tensors, [shape(t.shape) for t in tensors], *how)) if tensors else ()


def _same(shape: Shape) -> Shape:
    return shape


def _together(process_set: ProcessSet) -> Callable[[Shape], Shape]:
    count = len(ranks_of(set_id_of(process_set)))
    return lambda shape: (_rows("allgather", shape) * count, *shape[1:])


def _own_part(process_set: ProcessSet) -> Callable[[Shape], Shape]:
    count = len(ranks_of(set_id_of(process_set)))
    return lambda shape: (_part("reducescatter", shape, count), *shape[1:])


def _rows(kind: str, shape: Shape) -> int:
    if not shape:
        raise ValueError(f"{kind}: an array without dimensions has no rows; reshape it to (1,)")
    return shape[0]


def _part(kind: str, shape: Shape, count: int) -> int:
    rows = _rows(kind, shape)
    if rows % count:
        raise ValueError(
            f"{kind} in a compiled function: the first dimension must be divisible by the {count} members of the process set, "
            f"but it is {rows}"
        )
    return rows // count


OPS = JaxCollectives(FRAMEWORK)
