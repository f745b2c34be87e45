"""Sparse gradients: each rank sends the largest elements of its tensor, and remembers the others.

Where the core can read the tensor, it does all of it: see csrc/comm/sparse_allreduce.h. Elsewhere,
and in compiled programs, the algebra's primitives and an allgather do the same. Of equal elements
the core takes the first, and the algebra any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hvdlite.adapter.compression.algebra import Algebra, Array
from hvdlite.adapter.compression.methods import Largest, Scaled, State, Total
from hvdlite.core import engine
from hvdlite.core.engine import Pending
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import set_id_of


def start(algebra: Algebra, call: Call, asked: Largest, room: State | None = None) -> Pending:
    """Starts the round in the core, for a tensor that it is lent; the Pending's result is the
    answer, with the call's factors. In place, if the call is. `room`: memory of before that step,
    which the new one may be written to."""
    flat, state = asked.flat, asked.state
    count = algebra.count(flat)
    output = flat if call.in_place else algebra.room(count)
    # Fresh pages cost time.
    after = room or {key: algebra.room(count) for key in state}
    native = engine.submit_sparse(
        call.op,
        set_id_of(call.process_set),
        call.name,
        flat,
        output,
        call.prescale,
        call.postscale,
        asked.elements,
        state["residual"],
        after["residual"],
        state.get("velocity"),
        after.get("velocity"),
        *(asked.momentum or (0.0, False)),
        asked.masking,
        call.patient,
    )
    return Pending([native], lambda _: (Scaled(output), after))


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
