"""The sum of all ranks becomes what the program gets."""

from __future__ import annotations

from hvdlite.adapter.compression.algebra import Algebra, Tensor
from hvdlite.adapter.compression.methods import Scaled, Total


def landed(algebra: Algebra, total: Total, scale: float, tensor: Tensor) -> Tensor:
    """`total * scale`, with the shape and the dtype of `tensor`."""
    array = total.array if isinstance(total, Scaled) else total * scale
    return algebra.like(array, tensor)
