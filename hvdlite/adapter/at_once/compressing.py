"""The gradients of a step by a compression with a memory: all of them together, over the primitives
of a backend, also while traced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hvdlite.adapter.at_once.primitives import Backend, Group
from hvdlite.adapter.compression import selecting
from hvdlite.adapter.compression.landing import landed
from hvdlite.adapter.compression.methods import Encoded, Gather, Largest, Round, Sum, rounds
from hvdlite.adapter.compression.rounds import factor_of, together
from hvdlite.adapter.step import NO_COMPRESSION, Options
from hvdlite.base.ops import Sum as SUM


def travel(options: Options, backend: Backend, results: list[Any], variables: Sequence[Any],
           numbers: Sequence[int], beside: Group) -> Group:  # fmt: skip
    """Reduces these of `results` by the compressor's rounds. Sparse ones are not compressed."""
    method = options.compression.method
    assert method is not None
    algebra, ranks = method.algebra, options.process_set.size() or 1
    compiled = algebra.is_tracing()
    if compiled:
        method.decide_now(options.process_set)
    plain = replace(options, compression=NO_COMPRESSION)
    sparse: Group = {}
    dense: dict[int, Any] = {}
    for i in numbers:
        gradient, is_sparse = results[i], backend.is_sparse(results[i])
        if is_sparse and options.sparse_as_dense:
            gradient, is_sparse = backend.to_dense(gradient), False
        (sparse if is_sparse else dense)[i] = gradient
    received = dict(backend.allreduce([sparse], plain)) if sparse else {}
    keys = {i: _key(variables[i], i) for i in dense}
    ways = []
    for i, gradient in dense.items():
        flat, shape = algebra.flat(gradient), tuple(gradient.shape)
        state = method.state_of(keys[i], flat, shape, ranks)
        ways.append(rounds(method.part(keys[i], shape), algebra, flat, state, ranks))
    carrier = Carrier(backend, options, beside)
    scale = factor_of(options.op, options.prescale * options.postscale, ranks)
    for i, (total, state) in zip(dense, together(ways, carrier.send), strict=True):
        method.keep(keys[i], state)
        received[i] = landed(algebra, total, scale, dense[i])
    for i in numbers:
        results[i] = received[i]
    if not compiled:
        method.stepped(options.process_set)
    return received | carrier.beside


class Carrier:
    """Sends the rounds of a step. What is `beside` them travels with the first one."""

    def __init__(self, backend: Backend, options: Options, beside: Group) -> None:
        self._backend = backend
        self._options = replace(options, op=SUM, prescale=1.0, postscale=1.0, groups=None)
        self._waiting = beside
        self.beside: Group = {}
        self._count = 0

    def send(self, asked: dict[int, Round]) -> dict[int, Any]:
        self._count += 1
        options = replace(self._options, scope=f"{self._options.scope}round{self._count}.")
        answers = self._encoded(asked, options) | self._selected(asked, options)
        options = replace(options, compression=NO_COMPRESSION)
        return answers | self._gathered(asked, options) | self._added(asked, options)

    def _selected(self, asked: dict[int, Round], options: Options) -> dict[int, Any]:
        assert options.compression.method is not None
        algebra = options.compression.method.algebra
        largest = {n: each for n, each in asked.items() if isinstance(each, Largest)}
        lent = {n: each for n, each in largest.items() if algebra.is_lent(each.flat)}
        answers = self._backend.largest(lent, options) if lent else {}
        taken = {n: selecting.take(algebra, largest[n]) for n in largest.keys() - lent.keys()}
        gathers: dict[int, Round] = {n: Gather([t.values, t.positions]) for n, t in taken.items()}
        scope = f"{options.scope}largest."
        everyones = self._gathered(
            gathers, replace(options, compression=NO_COMPRESSION, scope=scope)
        )
        ranks = options.process_set.size() or 1
        return answers | {
            n: selecting.summed(algebra, largest[n], taken[n], everyones[n], ranks) for n in taken
        }

    def _encoded(self, asked: dict[int, Round], options: Options) -> dict[int, Any]:
        """Rounds by one codec travel together."""
        groups: dict[tuple[Any, ...], dict[int, Encoded]] = {}
        for number, each in asked.items():
            if isinstance(each, Encoded):
                how = (each.codec, each.parameter, each.seed, each.residual is None)
                groups.setdefault(how, {})[number] = each
        answers: dict[int, Any] = {}
        for place, group in enumerate(groups.values()):
            scope = f"{options.scope}codec{place}." if place else options.scope
            answers |= self._backend.encoded(group, replace(options, scope=scope))
        return answers

    def _gathered(self, asked: dict[int, Round], options: Options) -> dict[int, Any]:
        gathers = {n: each for n, each in asked.items() if isinstance(each, Gather)}
        if not gathers:
            return {}
        arrays = [array for each in gathers.values() for array in each.arrays]
        everyones = self._backend.allgather(dict(enumerate(arrays)), options)
        received = iter(everyones[i] for i in range(len(arrays)))
        return {n: [next(received) for _ in each.arrays] for n, each in gathers.items()}

    def _added(self, asked: dict[int, Round], options: Options) -> dict[int, Any]:
        sums = {n: each.array for n, each in asked.items() if isinstance(each, Sum)}
        if not sums and not self._waiting:
            return {}
        totals = self._backend.allreduce([sums | self._waiting], options)
        self.beside |= {number: totals[number] for number in self._waiting}
        self._waiting = {}
        return {number: totals[number] for number in sums}


def begin(options: Options, variables: Sequence[Any]) -> list[Any]:
    """Makes the memory before the first step, where it cannot be made within one. Its cells."""
    method = options.compression.method
    assert method is not None
    ranks, cells = options.process_set.size() or 1, []
    if options.takes_part():
        method.decide_now(options.process_set)
    for i, variable in enumerate(variables):
        shape = tuple(variable.shape)
        flat = method.algebra.constant(np.zeros(math.prod(shape), np.float32), None)
        method.state_of(_key(variable, i), flat, shape, ranks)
        cells += method.cells(_key(variable, i))
    return cells


def _key(variable: Any, number: int) -> str:
    """The variable's entry in the memory: its name, and its number, as names may repeat."""
    name = getattr(variable, "path", None) or getattr(variable, "name", None) or "gradient"
    return f"{str(name).partition(':')[0]}#{number}"
