"""The sum of all ranks becomes what the program gets."""

from __future__ import annotations

from hvdlite.adapter.compression.algebra import Algebra, Array, Tensor
from hvdlite.adapter.compression.methods import Scaled, Sparse, Total
from hvdlite.core import engine


def landed(
    algebra: Algebra, total: Total, scale: float, tensor: Tensor, in_place: bool = False
) -> Tensor:
    """`total * scale`, with the shape and the dtype of `tensor`. A sparse total may be written to
    the tensor's memory if it is `in_place`."""
    if isinstance(total, Scaled):
        return algebra.like(total.array, tensor)
    if not isinstance(total, Sparse):
        return algebra.like(total * scale, tensor)
    flat = total.flat
    if not algebra.is_lent(flat):
        return algebra.like(_dense(algebra, total) * scale, tensor)
    output = flat if in_place else algebra.room(algebra.count(flat))
    engine.spread(total.values, total.positions, scale, output)
    return algebra.like(output, tensor)


def _dense(algebra: Algebra, total: Sparse) -> Array:
    """In the order of the ranks, so that all have the same bits."""
    dense = algebra.zeros(total.flat.shape, total.flat)
    for rank in range(total.ranks):
        dense = algebra.added_at(dense, total.positions[rank], total.values[rank])
    return dense
