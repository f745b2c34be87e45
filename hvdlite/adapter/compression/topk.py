"""Top-k: each rank sends the largest elements of its tensor and remembers the others.

Where the core can read the tensor, it does all of it in one round. Elsewhere, and in compiled
programs, the algebra's primitives and an allgather do the same. Of equal elements the core takes
the first, and the algebra any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hvdlite.adapter.compression.algebra import Algebra, Array
from hvdlite.adapter.compression.methods import (
    Gather,
    Largest,
    Method,
    Part,
    Rounds,
    State,
    Total,
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


class _Largest(Part):
    guarded = False  # the rounds guard the memory themselves

    def __init__(self, density: float) -> None:
        self._density = density

    def begin(self, algebra: Algebra, flat: Array) -> State:
        return {"residual": algebra.zeros(flat.shape, flat)}

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        asked = Largest(flat, state, share_of(algebra, flat, self._density))
        return send_largest(algebra, asked, ranks)


def send_largest(algebra: Algebra, asked: Largest, ranks: int) -> Rounds:
    """The rounds of a tensor whose largest elements are sent."""
    if algebra.is_lent(asked.flat):
        total, state = yield asked
        return total, state
    taken = take(algebra, asked)
    everyones = yield Gather([taken.values, taken.positions])
    return summed(algebra, asked, taken, everyones, ranks)


class Taken(NamedTuple):
    values: Array
    positions: Array
    state: State  # afterwards


def take(algebra: Algebra, asked: Largest) -> Taken:
    """What this rank sends, by the algebra's primitives."""
    step, after = asked.flat, {}
    if asked.momentum is not None:
        after["velocity"], step = asked.momentum.after(asked.flat, asked.state["velocity"])
    due = asked.state["residual"] + step
    positions = algebra.largest(due, asked.elements)
    values = algebra.taken(due, positions)
    if asked.masking:
        after["velocity"] = algebra.cleared_at(after["velocity"], positions)
    after["residual"] = algebra.cleared_at(due, positions)
    return Taken(values, positions, after)


def summed(
    algebra: Algebra, asked: Largest, taken: Taken, everyones: Sequence[Any], ranks: int
) -> tuple[Total, State]:
    """The answer to the round, once values and positions of all ranks are there. It adds in the
    order of the ranks, so that all have the same bits."""
    values, positions = everyones
    total = algebra.zeros(asked.flat.shape, asked.flat)
    for rank in range(ranks):
        total = algebra.added_at(total, positions[rank], values[rank])
    fine = algebra.is_finite(algebra.total(values))
    return total, {
        key: algebra.chosen(fine, value, asked.state[key]) for key, value in taken.state.items()
    }
