"""Sparse gradients: each rank takes the largest elements of its tensor, and remembers the others.

Where the core can read the tensor, it selects in one pass over memory: see csrc/kernels/select.h.
Elsewhere, and in compiled programs, the algebra's primitives do the same. Of equal elements the
core takes the first, and the algebra any.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from hvdlite.adapter.compression.algebra import Algebra, Array
from hvdlite.adapter.compression.methods import Gather, Sparse, State
from hvdlite.core import engine


class Momentum(NamedTuple):
    """That of SGD, on one rank."""

    factor: float
    nesterov: bool

    def after(self, flat: Array, velocity: Array) -> tuple[Array, Array]:
        """The new velocity, and the step that it asks for."""
        if self.nesterov:
            velocity = (velocity + flat) * self.factor
            return velocity, velocity + flat
        velocity = velocity * self.factor + flat
        return velocity, velocity


class Taken(NamedTuple):
    values: Array
    positions: Array
    state: State  # afterwards


def take(
    algebra: Algebra,
    flat: Array,
    state: State,
    density: float,
    momentum: Momentum | None = None,
    masking: bool = False,
) -> Taken:
    """Takes the fraction `density` of the elements. The memory has a "residual", and with momentum
    a "velocity". `masking`: what is taken loses its momentum."""
    size = algebra.count(flat)
    count = max(1, round(density * size))
    if not algebra.is_lent(flat):
        return _by_algebra(algebra, flat, state, count, momentum, masking)
    values, positions = algebra.room(count), algebra.room(count, integers=True)
    after = {key: algebra.room(size) for key in state}
    engine.select(
        flat,
        state["residual"],
        after["residual"],
        values,
        positions,
        *((state["velocity"], after["velocity"], *momentum, masking) if momentum else ()),
    )
    return Taken(values, positions, after)


def _by_algebra(
    algebra: Algebra,
    flat: Array,
    state: State,
    count: int,
    momentum: Momentum | None,
    masking: bool,
) -> Taken:
    step, after = flat, {}
    if momentum is not None:
        after["velocity"], step = momentum.after(flat, state["velocity"])
    due = state["residual"] + step
    positions = algebra.largest(due, count)
    values = algebra.taken(due, positions)
    if masking:
        after["velocity"] = algebra.cleared_at(after["velocity"], positions)
    after["residual"] = algebra.cleared_at(due, positions)
    return Taken(values, positions, after)


def sum_of(taken: Taken, flat: Array, ranks: int) -> Generator[Gather, Any, Sparse]:
    """A round: the sum of what all ranks have taken."""
    values, positions = yield Gather([taken.values, taken.positions])
    return Sparse(values, positions, flat, ranks)
