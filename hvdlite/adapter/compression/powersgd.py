"""PowerSGD: a matrix travels as the product of two narrow ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hvdlite.adapter.compression.algebra import Algebra, Array
from hvdlite.adapter.compression.methods import Method, Part, Rounds, State, Sum


class PowerSGD(Method):
    """Vogels et al. 2019, with error feedback and a warm start. `rank`: the number of columns; 1 to
    4 is usual. `start_step`: so many steps are dense at first.

    A tensor of more dimensions is seen as a matrix of its first one and the rest. Matrices that
    would not get smaller stay dense.
    """

    def __init__(
        self,
        algebra: Callable[[], Algebra],
        rank: int = 2,
        start_step: int = 0,
        warm_start: bool = True,
        skip: str | Sequence[str] = (),
    ) -> None:
        super().__init__(algebra, skip)
        if rank < 1:
            raise ValueError(f"rank={rank} is not possible: a product has 1 column or more")
        if start_step < 0:
            raise ValueError(f"start_step={start_step} is not possible: steps count from 0")
        self.rank = rank
        self.start_step = start_step
        self.warm_start = warm_start

    def part(self, name: str, shape: Sequence[int]) -> Part:
        """Dense before the first step that is compressed."""
        part = super().part(name, shape)
        return part if self.steps.get(name, 0) >= self.start_step else Waiting(part)

    def changes(self) -> str:
        return f"start_step={self.start_step}" if self.start_step else ""

    def takes(self, name: str, shape: Sequence[int]) -> bool:
        if not super().takes(name, shape):
            return False
        rows, columns = as_matrix(shape)
        return self.rank * (rows + columns) < rows * columns

    def compressing(self, shape: Sequence[int]) -> Part:
        return LowRank(as_matrix(shape), self.rank, self.warm_start)

    def __repr__(self) -> str:
        return f"powersgd(rank={self.rank})"


class Waiting(Part):
    """Has the memory of the part that will take over, and sends the tensor as it is."""

    def __init__(self, later: Part) -> None:
        self._later = later

    def begin(self, algebra: Algebra, flat: Array) -> State:
        return self._later.begin(algebra, flat)

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        total = yield Sum(flat)
        return total, state


def as_matrix(shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns."""
    return int(shape[0]), math.prod(int(length) for length in shape[1:])


class LowRank(Part):
    def __init__(self, matrix: tuple[int, int], rank: int, warm_start: bool) -> None:
        self._matrix = matrix
        self._rank = min(rank, *matrix)
        self._warm_start = warm_start

    def begin(self, algebra: Algebra, flat: Array) -> State:
        return {"residual": algebra.zeros(flat.shape, flat), "right": self._first(algebra, flat)}

    def _first(self, algebra: Algebra, flat: Array) -> Array:
        # The same on all ranks, and another one for each shape.
        draw = np.random.default_rng(self._matrix).standard_normal((self._matrix[1], self._rank))
        return algebra.constant(draw.astype(np.float32), flat)

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        due = algebra.reshaped(flat + state["residual"], self._matrix)
        right = state["right"] if self._warm_start else self._first(algebra, flat)
        left = yield Sum(algebra.product(due, right))
        left = algebra.orthogonal(left)
        total_right = yield Sum(algebra.product(algebra.transposed(due), left))
        total = algebra.product(left, algebra.transposed(total_right))
        mean = total * (1.0 / ranks)
        residual = algebra.reshaped(due - mean, flat.shape)
        return algebra.reshaped(total, flat.shape), {"residual": residual, "right": total_right}
