"""Carries a compressor's rounds over the ranks: for one tensor, and for many side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.adapter.compression.algebra import Algebra, Array, Tensor
from hvdlite.adapter.compression.methods import (
    Encoded,
    Gather,
    Largest,
    Method,
    Part,
    Round,
    Rounds,
    Scaled,
    State,
    Total,
    rounds_of,
)
from hvdlite.base.operations import ALLGATHER, ALLREDUCE
from hvdlite.base.ops import Average
from hvdlite.base.ops import Sum as SUM
from hvdlite.core import engine
from hvdlite.core.collectives import Collectives
from hvdlite.core.engine import Pending, run_now
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import set_id_of


class RoundRunner:
    """Runs a compressor's rounds for one tensor. The constructor starts the first round.

    `key` names the tensor's state; `part` is its algorithm, if the caller has it.
    """

    def __init__(
        self,
        method: Method,
        ops: Collectives,
        call: Call,
        tensor: Tensor,
        key: str,
        part: Part | None = None,
    ) -> None:
        self._method = method
        self._algebra = algebra = method.algebra
        self._ops = ops
        self._call = call
        self._key = key
        self._tensor = tensor
        self._ranks = ranks = call.process_set.size() or 1
        flat = algebra.flat(tensor)
        shape = ops.framework.shape(tensor)
        state = method.state_of(key, flat, shape, ranks)
        self._rounds = rounds_of(part or method.part(key, shape), algebra, flat, state, ranks)
        self._count = 0
        self._spare: State | None = None
        self._total: Total = None
        self._pending: Pending | None = None
        self._error: Exception | None = None
        self._send(None)

    def advance(self) -> bool:
        """Waits for the round in flight and starts the next one. Returns whether it was the last.
        result() raises an error."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            try:
                self._send(run_now(pending))
            except Exception as error:
                self._error = error
        return self._pending is None

    def result(self) -> Tensor:
        """Waits for all rounds. The tensor that the optimizer gets."""
        wait_all([self])
        if self._error is not None:
            raise self._error
        call = self._call
        scale = factor_of(call.op, call.prescale * call.postscale, self._ranks)
        return finish(self._algebra, self._total, scale, self._tensor)

    def _send(self, answer: Any) -> None:
        try:
            asked = self._rounds.send(answer)
        except StopIteration as end:
            self._total, state = end.value
            self._method.keep(self._key, state)
            if self._spare is not None:
                self._method.spare[self._key] = self._spare
            return
        # The first round has the tensor's own name: where another rank does not compress, or by
        # another method, two kinds of operations meet there, and that is an error on all ranks.
        call = self._call
        if self._count:
            call = call._replace(name=f"{call.name}.round{self._count}")
        self._count += 1
        room = None
        if isinstance(asked, Largest):
            # The new memory goes where that of before the last step was.
            self._spare = asked.state
            room = self._method.spare.pop(self._key, None)
        self._pending = ask(self._ops, self._algebra, call, asked, room)


class OneRound:
    """A tensor without rounds, where a RoundRunner may be."""

    def __init__(self, result: Callable[[], Tensor]) -> None:
        self.result = result

    def advance(self) -> bool:
        """There is no other round."""
        return True


def wait_all(runners: Sequence[RoundRunner | OneRound]) -> None:
    """Waits for all. Each round of all is in flight before the program waits for one of them."""
    while runners:
        runners = [runner for runner in runners if not runner.advance()]


def compressed_allreduce(
    method: Method, ops: Collectives, call: Call, tensors: Sequence[Tensor]
) -> list[Tensor]:
    """An allreduce by the program's own call, at once. The call's name is the memory's key."""
    if call.operation is not ALLREDUCE or call.op not in (SUM, Average):
        raise ValueError(f"{method} compresses an allreduce with hvd.Average or hvd.Sum only")
    if call.name is None:
        raise ValueError(f"{method} remembers each tensor by its name: give the operation a name")
    method.decide_now(call.process_set)
    names = [f"{call.name}.{i}" if call.grouped else call.name for i in range(len(tensors))]
    runners = [
        RoundRunner(method, ops, call._replace(name=name), tensor, name)
        for name, tensor in zip(names, tensors, strict=True)
    ]
    wait_all(runners)
    return [runner.result() for runner in runners]


def run_together(
    running: Sequence[Rounds], send: Callable[[dict[int, Round]], dict[int, Any]]
) -> list[tuple[Total, State]]:
    """Runs all side by side: `send` carries what they ask for at one time, by their numbers, and
    returns the answers."""
    results: list[Any] = [None] * len(running)
    answers: dict[int, Any] = dict.fromkeys(range(len(running)))
    while answers:
        asked: dict[int, Round] = {}
        for number, answer in answers.items():
            try:
                asked[number] = running[number].send(answer)
            except StopIteration as end:
                results[number] = end.value
        answers = send(asked) if asked else {}
    return results


def factor_of(op: int, scale: float, ranks: int) -> float:
    """What the sum of all ranks is multiplied by, for a reduction whose factors make `scale`."""
    return scale / ranks if op == Average else scale


def finish(algebra: Algebra, total: Total, scale: float, tensor: Tensor) -> Tensor:
    """`total * scale`, with the shape and the dtype of `tensor`."""
    array = total.array if isinstance(total, Scaled) else total * scale
    return algebra.like(array, tensor)


# ---- one round


def ask(
    ops: Collectives, algebra: Algebra, call: Call, asked: Round, room: State | None = None
) -> Pending:
    """Starts a round under the call's name. The Pending's result is the answer."""
    if isinstance(asked, Largest):
        return ask_largest(algebra, call, asked, room)
    if isinstance(asked, Encoded):
        return ask_encoded(algebra, call, asked)
    if isinstance(asked, Gather):
        gather = Call(ALLGATHER, call.name, call.process_set, grouped=True, patient=call.patient)
        return ops.start(gather, [array[None] for array in asked.arrays])
    plain = Call(ALLREDUCE, call.name, call.process_set, SUM, patient=call.patient)
    if not asked.last:
        return ops.start(plain, [asked.array])
    scaled = plain._replace(op=call.op, prescale=call.prescale, postscale=call.postscale)
    pending = ops.start(scaled, [asked.array])
    return Pending(pending.natives, lambda outcomes: Scaled(pending.finish(outcomes)))


# These two the core does by itself. It multiplies by the call's factors, so the sum is Scaled. They
# are in place, if the call is.


def ask_encoded(algebra: Algebra, call: Call, asked: Encoded) -> Pending:
    """See encoded_allreduce.h in csrc/comm."""
    tensor = algebra.for_core(asked.array)
    output = tensor if call.in_place else algebra.zeros_for_core(asked.array)
    residual = None if asked.residual is None else algebra.writable(asked.residual)
    number, _ = engine.codecs()[asked.codec]
    native = engine.submit_encoded(
        call.op,
        set_id_of(call.process_set),
        call.name,
        tensor,
        output,
        1.0,
        call.prescale * call.postscale,
        number,
        asked.parameter,
        residual,
        asked.seed,
        int(asked.step),
        call.patient,
    )

    def answer(_: Any) -> tuple[Total, Array | None]:
        return Scaled(algebra.from_core(output, asked.array)), residual

    return Pending([native], answer)


def ask_largest(algebra: Algebra, call: Call, asked: Largest, room: State | None = None) -> Pending:
    """See sparse_allreduce.h in csrc. `room`: memory that the new state may be written to."""
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
