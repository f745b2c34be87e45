"""Measures allreduces for hvd.Compression.auto: of arrays in host memory, dense and by
compressions."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence

import numpy as np

from hvdlite.adapter.compression.algebra import Array
from hvdlite.adapter.compression.choosing import Curve, Measured
from hvdlite.adapter.compression.methods import DENSE, Method, Part, State, rounds_of
from hvdlite.adapter.compression.on_numpy import ALGEBRA
from hvdlite.adapter.compression.rounds import ask
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Max
from hvdlite.core.arrays.ops import OPS
from hvdlite.core.engine import run_now
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import ProcessSet
from hvdlite.job import basics

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
