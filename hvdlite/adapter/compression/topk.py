"""Top-k: each rank sends the largest elements of its tensor and remembers the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hvdlite.adapter.compression.algebra import Algebra, Array
from hvdlite.adapter.compression.methods import (
    Largest,
    Method,
    Part,
    Rounds,
    State,
    check_fraction,
    share_of,
)


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
    guarded = False  # the round is

    def __init__(self, density: float) -> None:
        self._density = density

    def begin(self, algebra: Algebra, flat: Array) -> State:
        return {"residual": algebra.zeros(flat.shape, flat)}

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        total, after = yield Largest(flat, state, share_of(algebra, flat, self._density))
        return total, after
