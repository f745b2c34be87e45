"""A compressor's rounds over the ranks, for one tensor by itself and for many together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.adapter.compression import selecting
from hvdlite.adapter.compression.algebra import Algebra, Array, Tensor
from hvdlite.adapter.compression.landing import landed
from hvdlite.adapter.compression.methods import (
    Encoded,
    Largest,
    Method,
    Part,
    Round,
    Rounds,
    Scaled,
    State,
    Sum,
    Total,
    rounds,
)
from hvdlite.base.operations import ALLGATHER, ALLREDUCE
from hvdlite.base.ops import Average
from hvdlite.base.ops import Sum as SUM
from hvdlite.core import engine
from hvdlite.core.collectives import Collectives
from hvdlite.core.engine import Pending, run_now
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import set_id_of


class Journey:
    """One tensor's way. It begins at once. `key`: the tensor's entry in the memory; `part`: what
    takes care of it, if the caller knows."""

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
        self._rounds = rounds(part or method.part(key, shape), algebra, flat, state, ranks)
        self._count = 0
        self._spare: State | None = None
        self._total: Total = None
        self._pending: Pending | None = None
        self._error: Exception | None = None
        self._send(None)

    def has_arrived(self) -> bool:
        """Waits for the round under way, and starts the next one if there is one. An error is kept
        for the call."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            try:
                self._send(run_now(pending))
            except Exception as error:
                self._error = error
        return self._pending is None

    def __call__(self) -> Tensor:
        """Waits for everything. The tensor that the optimizer gets."""
        arrive([self])
        if self._error is not None:
            raise self._error
        return landed(self._algebra, self._total, factor(self._call, self._ranks), self._tensor)

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
        if isinstance(asked, Largest) and self._algebra.is_lent(asked.flat):
            # The new memory goes where that of before the last step was.
            self._spare = asked.state
            room = self._method.spare.pop(self._key, None)
            self._pending = selecting.start(self._algebra, call, asked, room)
        else:
            self._pending = begin_round(self._ops, self._algebra, call, asked)


def arrive(journeys: Sequence[Journey]) -> None:
    """Waits for all. Each round of all is under way before the program waits for one of them."""
    while journeys:
        journeys = [journey for journey in journeys if not journey.has_arrived()]


def travelled(
    method: Method, ops: Collectives, call: Call, tensors: Sequence[Tensor]
) -> list[Tensor]:
    """An allreduce by the program's own call, at once. The call's name is the memory's key."""
    if call.operation is not ALLREDUCE or call.op not in (SUM, Average):
        raise ValueError(f"{method} compresses an allreduce with hvd.Average or hvd.Sum only")
    if call.name is None:
        raise ValueError(f"{method} remembers each tensor by its name: give the operation a name")
    method.decide_now(call.process_set)
    names = [f"{call.name}.{i}" if call.grouped else call.name for i in range(len(tensors))]
    journeys = [
        Journey(method, ops, call._replace(name=name), tensor, name)
        for name, tensor in zip(names, tensors, strict=True)
    ]
    arrive(journeys)
    return [journey() for journey in journeys]


def begin_round(ops: Collectives, algebra: Algebra, call: Call, asked: Round) -> Pending:
    """Starts a round under the call's name; the Pending's result is the answer."""
    if isinstance(asked, Encoded):
        return start_encoded(algebra, call, asked, scaled=True)
    if isinstance(asked, Sum):
        return _begin_sum(ops, call, asked)
    if isinstance(asked, Largest):
        return _begin_largest(ops, algebra, call, asked)
    return ops.start(_gather(call), [array[None] for array in asked.arrays])


def _gather(call: Call) -> Call:
    return Call(ALLGATHER, call.name, call.process_set, grouped=True, patient=call.patient)


def _begin_sum(ops: Collectives, call: Call, asked: Sum) -> Pending:
    plain = Call(ALLREDUCE, call.name, call.process_set, SUM, patient=call.patient)
    if not asked.last:
        return ops.start(plain, [asked.array])
    scaled = plain._replace(op=call.op, prescale=call.prescale, postscale=call.postscale)
    pending = ops.start(scaled, [asked.array])
    return Pending(pending.natives, lambda outcomes: Scaled(pending.finish(outcomes)))


def _begin_largest(ops: Collectives, algebra: Algebra, call: Call, asked: Largest) -> Pending:
    if algebra.is_lent(asked.flat):
        return selecting.start(algebra, call, asked)
    ranks = call.process_set.size() or 1
    taken = selecting.take(algebra, asked)
    pending = ops.start(_gather(call), [taken.values[None], taken.positions[None]])

    def answer(outcomes: list[Any]) -> tuple[Total, State]:
        return selecting.summed(algebra, asked, taken, pending.finish(outcomes), ranks)

    return Pending(pending.natives, answer)


def start_encoded(algebra: Algebra, call: Call, asked: Encoded, scaled: bool = False) -> Pending:
    """Starts a round by a codec; the Pending's result is the answer. In place, if the call is.
    `scaled`: the core multiplies by the call's factors, while the sum is in its cache, and the sum
    is Scaled."""
    tensor = algebra.for_core(asked.array)
    output = tensor if call.in_place else algebra.zeros_for_core(asked.array)
    residual = None if asked.residual is None else algebra.writable(asked.residual)
    number, _ = engine.codecs()[asked.codec]
    native = engine.submit_encoded(
        call.op if scaled else SUM,
        set_id_of(call.process_set),
        call.name,
        tensor,
        output,
        1.0,
        call.prescale * call.postscale if scaled else 1.0,
        number,
        asked.parameter,
        residual,
        asked.seed,
        int(asked.step),
        call.patient,
    )

    def answer(_: Any) -> tuple[Total, Array | None]:
        total = algebra.from_core(output, asked.array)
        return Scaled(total) if scaled else total, residual

    return Pending([native], answer)


def factor(call: Call, ranks: int) -> float:
    """What the sum of all ranks is multiplied by."""
    return factor_of(call.op, call.prescale * call.postscale, ranks)


def factor_of(op: int, scale: float, ranks: int) -> float:
    """The same for a reduction whose factors make `scale`."""
    return scale / ranks if op == Average else scale


def together(
    ways: Sequence[Rounds], send: Callable[[dict[int, Round]], dict[int, Any]]
) -> list[tuple[Total, State]]:
    """Runs all ways side by side: `send` carries what they ask for at one time, by their numbers,
    and returns the answers."""
    results: list[Any] = [None] * len(ways)
    answers: dict[int, Any] = dict.fromkeys(range(len(ways)))
    while answers:
        asked: dict[int, Round] = {}
        for number, answer in answers.items():
            try:
                asked[number] = ways[number].send(answer)
            except StopIteration as end:
                results[number] = end.value
        answers = send(asked) if asked else {}
    return results
