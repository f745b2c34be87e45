"""hvd.Compression.auto: compresses where the network makes steps longer than they need to be."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hvdlite.adapter import elastic
from hvdlite.adapter.announcing import announce
from hvdlite.adapter.compression.algebra import Algebra, Array
from hvdlite.adapter.compression.casts import Cast
from hvdlite.adapter.compression.choosing import (
    Curve,
    Measured,
    Trial,
    best,
    choice,
    evidence,
    pays,
    rule,
)
from hvdlite.adapter.compression.codecs import int8
from hvdlite.adapter.compression.methods import DENSE, Method, Part, Rounds, State, Sum, rounds_of
from hvdlite.adapter.compression.on_numpy import ALGEBRA
from hvdlite.adapter.compression.rounds import ask
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Max
from hvdlite.core.arrays.ops import OPS
from hvdlite.core.engine import run_now
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import ProcessSet
from hvdlite.job import basics


class Auto(Method):
    """Chooses one of `candidates` for each tensor, or none: the same on all ranks.

    After the first step, which is dense, the ranks measure allreduces of a few sizes. Candidates
    that are faster for some tensor take turns with dense steps, and the one whose steps are
    shortest stays. A compiled step cannot take turns: there the measurement decides, before the
    first one.

    Each candidate keeps the memory of its tensors.
    """

    def __init__(
        self,
        algebra: Callable[[], Algebra],
        candidates: Sequence[Method | Cast] | None = None,
        skip: str | Sequence[str] = (),
    ) -> None:
        super().__init__(algebra, skip)
        given = [int8(algebra)] if candidates is None else candidates
        self.candidates = [
            Narrow(algebra, each) if isinstance(each, Cast) else _checked(each) for each in given
        ]
        for each in self.candidates:
            each.serve(self)
        self._seen: dict[str, tuple[int, ...]] = {}  # the shapes of all tensors, by name
        self._travels: dict[str, Method | None] = {}  # by name: how the tensor travels in this step
        self._forget()
        # Tests have others.
        self._measure: Callable[[Sequence[Method], ProcessSet], Measured] = measured
        self._clock: Callable[[], float] = time.perf_counter

    def _forget(self) -> None:
        self._job = 0  # of which what follows is known
        self._measured: Measured | None = None
        self._trial: Trial | None = None
        self._first: int | None = None  # the candidate that is preferred
        self._found: dict[tuple[str, tuple[int, ...]], Method | None] = {}  # until a decision
        #: what was chosen, in one sentence; empty until then
        self.said = ""

    # ---- deciding

    def stepped(self, process_set: ProcessSet) -> bool:
        """Measures after the first step, then compares steps."""
        self._renew()
        if self.said:
            return False
        if self._measured is None:
            self._measured = self._measure(self.candidates, process_set)
            faster = [number for number in range(len(self.candidates)) if self._pays(number)]
            if faster:
                self._trial = Trial(self._clock(), faster)
            else:
                self._decide(process_set, "no compression", self._evidence())
        elif self._trial is not None:
            self._trial.step(self._clock())
            if self._trial.is_over:
                self._judge(self._trial, process_set)
        return True

    def _judge(self, trial: Trial, process_set: ProcessSet) -> None:
        assert self._measured is not None
        mine, labels = trial.medians(), self._labels()
        medians = dict(zip(mine, agreed(list(mine.values()), process_set), strict=True))
        times = [f"{seconds:.3g} s {'dense' if candidate is None else f'with {labels[candidate]}'}"
                 for candidate, seconds in medians.items()]  # fmt: skip
        why = f"a step takes {', '.join(times)}"
        self._first = best(medians)
        if self._first is None:
            self._measured = Measured(None, why=why)
        self._decide(process_set, rule(self._measured, labels, self._first), why)

    def decide_now(self, process_set: ProcessSet) -> None:
        """Measures before the first step, if nothing has been measured yet."""
        if elastic.enabled():
            raise ValueError(
                f"{self} measures anew when ranks come or go, and a compiled step or a single "
                "operation cannot follow: name one compression in an elastic job"
            )
        self._renew()
        if self.said:
            return
        if self._measured is None:
            self._measured = self._measure(self.candidates, process_set)
        self._decide(process_set, rule(self._measured, self._labels()), self._evidence())

    def _decide(self, process_set: ProcessSet, chosen: str, why: str) -> None:
        self._trial = None
        self._found = {}
        self.said = f"hvd.Compression.auto: {chosen}; {why}"
        announce(self.said, process_set)

    def _renew(self) -> None:
        """Another job, or another generation of an elastic one, has another network."""
        job = basics.incarnation()
        if job != self._job:
            self._forget()
            self._job = job

    def _labels(self) -> list[str]:
        return [str(each) for each in self.candidates]

    def _evidence(self) -> str:
        assert self._measured is not None
        return evidence(self._measured, self._labels())

    # ---- how a tensor travels

    def _pays(self, number: int) -> bool:
        """Whether a candidate is faster than dense for some tensor that it takes."""
        assert self._measured is not None
        return any(
            number in self._allowed(name, shape) and pays(math.prod(shape), self._measured, number)
            for name, shape in self._seen.items()
        )

    def _allowed(self, name: str, shape: Sequence[int]) -> list[int]:
        """The candidates that take a tensor."""
        plain = name.partition("#")[0]
        if not self.takes(plain, shape):
            return []
        return [i for i, each in enumerate(self.candidates) if each.takes(plain, shape)]

    def _chosen(self, name: str, shape: Sequence[int], first: int | None) -> Method | None:
        """The candidate for a tensor; None: dense."""
        if self._measured is None:
            return None
        number = choice(math.prod(shape), self._measured, self._allowed(name, shape), first)
        return None if number is None else self.candidates[number]

    def _now(self, name: str, shape: Sequence[int]) -> Method | None:
        """The candidate in this step."""
        self._renew()
        if self._trial is None:
            tensor = (name, tuple(shape))
            if tensor not in self._found:
                self._found[tensor] = self._chosen(name, shape, self._first)
            return self._found[tensor]
        candidate = self._trial.candidate
        return None if candidate is None else self._chosen(name, shape, candidate)

    def part(self, name: str, shape: Sequence[int]) -> Part:
        """That of the candidate."""
        self._seen[name] = tuple(shape)
        method = self._now(name, shape)
        return DENSE if method is None else method.part(name, shape)

    def state_of(self, name: str, flat: Array, shape: Sequence[int], ranks: int) -> State:
        """The candidate's memory of the tensor."""
        method = self._travels[name] = self._now(name, shape)
        return {} if method is None else method.state_of(name, flat, shape, ranks)

    def cells(self, name: str) -> list[Any]:
        """The candidate's."""
        method = self._travels[name]
        return [] if method is None else method.cells(name)

    def keep(self, name: str, state: State) -> None:
        """In the candidate's memory."""
        method = self._travels[name]
        if method is not None:
            method.keep(name, state)

    def changes(self) -> str:
        """What changes in a candidate."""
        return ", ".join(filter(None, (each.changes() for each in self.candidates)))

    def on_epoch(self, epoch: int) -> None:
        """Tells the candidates."""
        for each in self.candidates:
            each.on_epoch(epoch)

    # ---- checkpoints: the memory, and no choice

    def state_dict(self) -> dict[str, Any]:
        """The memory of each candidate, by its name."""
        return {str(each): each.state_dict() for each in self.candidates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The reverse. The memory of a candidate that is not here is dropped."""
        for each in self.candidates:
            if str(each) in state:
                each.load_state_dict(state[str(each)])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_seen": {}, "_travels": {}, "_owner": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __repr__(self) -> str:
        return f"auto({', '.join(self._labels())})"


def _checked(candidate: Any) -> Method:
    """A ValueError or TypeError with a sentence for what cannot be chosen."""
    if not isinstance(candidate, Method) or isinstance(candidate, Auto):
        raise TypeError(
            f"candidates: auto cannot choose {candidate}. It chooses from compressions of "
            "hvd.Compression, such as [hvd.Compression.int8(), hvd.Compression.sign()]"
        )
    if candidate.momentum:
        raise ValueError(
            f"{candidate} carries the momentum of all tensors, compressed or not: auto cannot "
            "choose it. Give it momentum=0, or take topk"
        )
    return candidate


# ---- a cast (hvd.Compression.fp16, bf16) as a candidate


class Narrow(Method):
    """Without memory."""

    def __init__(self, algebra: Callable[[], Algebra], cast: Cast) -> None:
        super().__init__(algebra)
        self._cast = cast

    def compressing(self, shape: Sequence[int]) -> Part:
        return _Narrow(self._cast.compress, self._cast.decompress)

    def probe(self, shape: Sequence[int]) -> Part:
        """numpy has no bfloat16; float16 is as long."""
        return _Narrow(lambda array: (array.astype(np.float16), array.dtype), np.ndarray.astype)

    def __repr__(self) -> str:
        return str(self._cast)


class _Narrow(Part):
    def __init__(
        self, narrow: Callable[[Array], tuple[Array, object]], widen: Callable[..., Array]
    ) -> None:
        self._narrow = narrow
        self._widen = widen

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        narrow, context = self._narrow(flat)
        total = yield Sum(narrow)
        return self._widen(total, context), state


# ---- measuring allreduces of arrays in host memory, dense and by compressions


#: Numbers of the tensors that are measured. Each is a square, for methods that need a matrix.
COUNTS = (1 << 12, 1 << 16, 1 << 20)
TURNS = 3
_NAME = "hvd.Compression.auto"


def measured(candidates: Sequence[Method], process_set: ProcessSet) -> Measured:
    """Measures, unless the network cannot limit a step. All members must call this; they get the
    same result."""
    if (process_set.size() or 1) < 2:
        return Measured(None, why="there is one rank")
    if basics.local_size() == basics.size():
        return Measured(None, why="all ranks are on one host")
    mine = []
    for number in range(-1, len(candidates)):
        for count in COUNTS:
            shape = (math.isqrt(count), math.isqrt(count))
            part = DENSE if number < 0 else candidates[number].probe(shape)
            mine.append(_seconds(part, count, f"{_NAME}.{number + 1}.{count}", process_set))
    everyones = agreed(mine, process_set)
    curves = [
        Curve(COUNTS, tuple(everyones[begin : begin + len(COUNTS)]))
        for begin in range(0, len(everyones), len(COUNTS))
    ]
    return Measured(curves[0], tuple(curves[1:]))


def agreed(seconds: Sequence[float], process_set: ProcessSet) -> list[float]:
    """Of each number the largest on any rank: a step takes as long as on the slowest one."""
    mine = np.array(seconds, np.float64)
    largest = OPS.run_one(mine, ALLREDUCE, f"{_NAME}.agreed", process_set, op=Max)
    return [float(each) for each in largest]


def _seconds(part: Part, count: int, name: str, process_set: ProcessSet) -> float:
    """The shortest of some turns. One turn before warms the connections up."""
    flat = np.random.default_rng(count).standard_normal(count, np.float32)
    state, call, found = part.begin(ALGEBRA, flat), Call(ALLREDUCE, name, process_set), []
    for _ in range(1 + TURNS):
        began = time.perf_counter()
        state = _reduce(part, flat, state, call)
        found.append(time.perf_counter() - began)
    return min(found[1:])


def _reduce(part: Part, flat: Array, state: State, call: Call) -> State:
    """Carries the tensor over the ranks. The state after it."""
    running = rounds_of(part, ALGEBRA, flat, state, call.process_set.size() or 1)
    answer, after = None, state
    for number in itertools.count():
        try:
            asked = running.send(answer)
        except StopIteration as end:
            _, after = end.value
            break
        mine = call._replace(name=f"{call.name}.{number}")
        answer = run_now(ask(OPS, ALGEBRA, mine, asked))
    return after
