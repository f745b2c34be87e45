"""Collectives inside a function that XLA compiles (jit_compile=True).

All shapes are known when the function is traced, so all ranks have equally many rows there. Each call blocks a thread of XLA's
until all ranks have come; calls run one at a time, in the program's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hvdlite.adapter import engine
from hvdlite.adapter.collectives import check_scatter
from hvdlite.ops import Kind
from hvdlite.process_sets import ProcessSet, set_id_of
from hvdlite.tensorflow import xla


def gradients(tensors: Sequence[Any], names: Sequence[str], *how: Any) -> list[Any]:
    """All in one call, under the scope that their names have in common."""
    scope = names[0].rpartition("/")[0] or names[0]
    return grouped_allreduce(tensors, scope, *how)


def allreduce(tensors: Sequence[Any], names: Sequence[str], *how: Any) -> list[Any]:
    return [grouped_allreduce([t], name, *how)[0] for t, name in zip(tensors, names, strict=True)]


def grouped_allreduce(
    tensors: Sequence[Any], name: str, op: int, prescale: float, postscale: float, s: ProcessSet
) -> list[Any]:
    return xla.call(Kind.ALLREDUCE, tensors, _shapes(tensors, name), name, s, op, 0, prescale, postscale)


def broadcast(tensor: Any, root: int, name: str, s: ProcessSet) -> Any:
    return xla.call(Kind.BROADCAST, [tensor], [xla.static_shape(tensor, name)], name, s, root=root)[0]


def grouped_allgather(tensors: Sequence[Any], name: str, s: ProcessSet) -> list[Any]:
    shapes = [[_rows("allgather", shape) * _count(s), *shape[1:]] for shape in _shapes(tensors, name)]
    return xla.call(Kind.ALLGATHER, tensors, shapes, name, s)


def grouped_reducescatter(
    tensors: Sequence[Any], name: str, op: int, prescale: float, postscale: float, s: ProcessSet
) -> list[Any]:
    check_scatter(op)
    shapes = [[_part("reducescatter", shape, s), *shape[1:]] for shape in _shapes(tensors, name)]
    return xla.call(Kind.REDUCESCATTER, tensors, shapes, name, s, op, 0, prescale, postscale)


def alltoall(tensor: Any, splits: Any, name: str, s: ProcessSet) -> tuple[Any, Any]:
    shape = xla.static_shape(tensor, name)
    even = [_part("alltoall", shape, s)] * _count(s)
    wanted = tf.get_static_value(splits)
    if wanted is None or wanted.tolist() not in ([], even):
        raise xla.refuse(
            "alltoall with splits",
            "only the other ranks know the shape of its result. Leave splits= out, or call it outside",
        )
    return xla.call(Kind.ALLTOALL, [tensor], [shape], name, s)[0], tf.constant(even, tf.int32)


def join(name: str) -> Any:
    raise xla.refuse("hvd.join()")


def _count(s: ProcessSet) -> int:
    return len(engine.ranks_of(set_id_of(s)))


def _shapes(tensors: Sequence[Any], name: str) -> list[list[int]]:
    return [xla.static_shape(tensor, name) for tensor in tensors]


def _rows(kind: str, shape: Sequence[int]) -> int:
    if not shape:
        raise ValueError(f"{kind}: a tensor without dimensions has no rows; reshape it to (1,)")
    return shape[0]


def _part(kind: str, shape: Sequence[int], s: ProcessSet) -> int:
    rows, count = _rows(kind, shape), _count(s)
    if rows % count:
        raise ValueError(
            f"{kind} in a function that XLA compiles (jit_compile=True): the first dimension must be divisible by the {count} "
            f"members of the process set, but it is {rows}"
        )
    return rows // count
