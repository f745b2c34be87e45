"""Top-k: each rank sends the largest elements of its tensor and remembers the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hvdlite.adapter.compression.algebra import Algebra, Array
from hvdlite.adapter.compression.methods import Gather, Method, Part, Rounds, State, check_fraction


class TopK(Method):
    """Sends the fraction `density` of each matrix. What is not sent is added to the next step's
    gradient (error feedback)."""

    def __init__(
        self,
        algebra: Callable[[], Algebra],
        density: float = 0.01,
        skip: str | Sequence[str] = (),
    ) -> None:
        super().__init__(algebra, skip)
        self.density = check_fraction("density", density)

    def compressing(self, shape: Sequence[int]) -> Part:
        return _Largest(self.density)

    def __repr__(self) -> str:
        return f"topk(density={self.density:g})"


class _Largest:
    def __init__(self, density: float) -> None:
        self._density = density

    def begin(self, algebra: Algebra, flat: Array) -> State:
        return {"residual": algebra.zeros(flat.shape, flat)}

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        due = flat + state["residual"]
        positions = algebra.largest(due, count_of(self._density, flat))
        total = yield from sum_at(algebra, flat, positions, algebra.taken(due, positions), ranks)
        return total, {"residual": algebra.cleared_at(due, positions)}


def count_of(density: float, flat: Array) -> int:
    """How many elements are sent."""
    return max(1, round(density * int(flat.shape[0])))


def sum_at(algebra: Algebra, flat: Array, positions: Array, values: Array, ranks: int):  # type: ignore[no-untyped-def]
    """A round: the sum of all ranks' values at their positions, in the order of the ranks, so that
    all have the same bits."""
    everyones_values, everyones_positions = yield Gather([values, positions])
    total = algebra.zeros(flat.shape, flat)
    for rank in range(ranks):
        total = algebra.added_at(total, everyones_positions[rank], everyones_values[rank])
    return total
