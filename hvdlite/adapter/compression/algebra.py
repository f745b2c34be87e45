"""What compressors with memory must know about a framework's arrays: a handful of primitives.

An Array is the framework's own. `+ - *` work on all of them, element by element and with numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np

Array = Any
Tensor = Any


class Algebra(Protocol):
    """The primitives. All but `flat` and `like` take and return arrays of float32 on one device."""

    def flat(self, tensor: Tensor) -> Array:
        """The tensor as float32 in one dimension; perhaps the tensor's own memory."""

    def like(self, array: Array, tensor: Tensor) -> Tensor:
        """With the shape and the dtype of `tensor`."""

    def zeros(self, shape: Sequence[int], like: Array) -> Array: ...

    def zeros_for_core(self, like: Array) -> Array:
        """As many, where for_core() of it would be."""

    def for_core(self, array: Array) -> Array:
        """The array itself, if the core can encode it where it is, or its copy in host memory:
        contiguous."""

    def writable(self, residual: Array) -> Array:
        """A residual that the core may write to: the array itself, or a copy."""

    def from_core(self, array: Array, like: Array) -> Array:
        """The array, or its copy, on the device of `like`."""

    def constant(self, values: Any, like: Array) -> Array:
        """An array of numpy's, or a copy, as an array with memory of its own, on the device of
        `like`."""

    def copied(self, array: Array) -> Any:
        """For a checkpoint: in host memory, of a kind that the framework's checkpoints take."""

    def is_lent(self, array: Array) -> bool:
        """Whether the core can read and write this array where it is, in this step: contiguous, in
        host memory. If so, there is room for others."""

    def room(self, count: int) -> Array:
        """Host memory for so many numbers, with anything in it."""

    def is_tracing(self) -> bool:
        """Whether a program is being compiled, whose steps are all alike."""

    # ---- memory: a cell holds an array from step to step

    def outside(self) -> AbstractContextManager[Any]:
        """In this context cells are made: outside of the program that is being traced."""

    def cell(self, array: Array) -> Any:
        """A new cell that holds this array."""

    def read(self, cell: Any) -> Array: ...

    def write(self, cell: Any, array: Array) -> Any:
        """The cell, or the one that takes its place, with this array in it."""

    # ---- arithmetic

    def reshaped(self, array: Array, shape: Sequence[int]) -> Array: ...

    def total(self, array: Array) -> Array:
        """The sum of all elements."""

    def root(self, array: Array) -> Array:
        """The square root of each element."""

    def least(self, array: Array, bound: float) -> Array:
        """The smaller one of each element and the bound."""

    def largest(self, array: Array, count: int) -> Array:
        """The positions (int32) of so many elements, none of which is smaller in magnitude than any
        other element. NaN is larger than all numbers."""

    def taken(self, array: Array, positions: Array) -> Array:
        """The elements at these positions."""

    def added_at(self, array: Array, positions: Array, values: Array) -> Array:
        """With these values added. The positions differ from one another."""

    def cleared_at(self, array: Array, positions: Array) -> Array:
        """With zeros at these positions; perhaps the array itself, which has them then."""

    def product(self, a: Array, b: Array) -> Array:
        """Of two matrices."""

    def transposed(self, a: Array) -> Array: ...

    def orthogonal(self, a: Array) -> Array:
        """Columns of length 1 at right angles to one another, which span those of `a`; the same
        bits for the same bits."""

    def count(self, array: Array) -> int:
        """How many elements it has."""

    def chosen(self, condition: Array, yes: Array, no: Array) -> Array:
        """`yes` where the one truth value `condition` is true, else `no`."""

    def is_finite(self, number: Array) -> Array:
        """A truth value."""


class NotLent:
    """Of a framework whose arrays the core is not lent between the primitives of a step. It gets
    copies, as arrays of numpy's."""

    def is_lent(self, array: Array) -> bool:
        return False

    def room(self, count: int) -> Array:
        raise NotImplementedError("the core is not lent these arrays")

    def zeros_for_core(self, like: Array) -> Array:
        return np.zeros(like.shape, np.float32)

    def for_core(self, array: Array) -> Array:
        return np.array(array)

    def writable(self, residual: Array) -> Array:
        return np.array(residual)

    def copied(self, array: Array) -> Any:
        return np.array(array)


class Arrays:
    """What arrays of numpy's kind answer alike. Their cells are the arrays themselves."""

    def is_tracing(self) -> bool:
        return False

    def outside(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def cell(self, array: Array) -> Any:
        return array

    def read(self, cell: Any) -> Array:
        return cell

    def write(self, cell: Any, array: Array) -> Any:
        return array

    def taken(self, array: Array, positions: Array) -> Array:
        return array[positions]

    def added_at(self, array: Array, positions: Array, values: Array) -> Array:
        array[positions] += values
        return array

    def cleared_at(self, array: Array, positions: Array) -> Array:
        array[positions] = 0.0
        return array

    def product(self, a: Array, b: Array) -> Array:
        return a @ b

    def transposed(self, a: Array) -> Array:
        return a.T


#: Below this many elements a sample does not pay.
SAMPLED_FROM = 1 << 16


def likely(
    magnitudes: Array, count: int, largest: Callable[[Array, int], Array],
    places: Callable[[Array], Array],
) -> Array | None:  # fmt: skip
    """Positions among which are those of the `count` largest, found by a sample; None: all of them.

    A threshold taken from the sample leaves somewhat more than `count`; too high a one is lowered.
    `largest`: the n-th largest element. `places`: where an array is true.
    """
    size = len(magnitudes)
    if size < SAMPLED_FROM or count * 4 > size:
        return None
    step = max(1, min(100, count // 2))  # a sample of 1 %, and of two wanted elements at least
    sample = magnitudes[::step]
    threshold = largest(sample, max(1, count * len(sample) // size))
    for _ in range(10):
        found = places(~(magnitudes < threshold))  # NaN is larger than all
        if len(found) >= count:
            return found
        threshold = threshold * 0.8
    return None
