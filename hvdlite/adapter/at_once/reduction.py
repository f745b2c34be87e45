"""The gradients of a step, from this rank's to those of all ranks: over the primitives of a
backend, also while traced."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hvdlite.adapter.at_once.primitives import Backend, Group
from hvdlite.adapter.compression.methods import Encoded, Gather, Largest, Round, Sum, rounds_of
from hvdlite.adapter.compression.rounds import factor_of, finish, run_together
from hvdlite.adapter.step import NO_COMPRESSION, Options, positions
from hvdlite.base.ops import Sum as SUM

Gradients = list[Any]  # None for a variable that got none

_PRESENT = -1  # the number of the tensor that says which gradients there are


def reduced(options: Options, backend: Backend, gradients: Sequence[Any], variables: Sequence[Any],
            local: Collection[int] = (),
            absent: Sequence[Any] | None = None) -> Gradients:  # fmt: skip
    """`local`: the ids of variables whose gradients stay here, divided by the number of ranks if it
    was asked for. `absent`: what counts where this rank has none and others have; else zeros."""
    results = list(gradients)
    if not options.reduces():
        return results
    everyones = [i for i, variable in enumerate(variables) if id(variable) not in local]
    for i in range(len(results)) if local and options.scale_local else ():
        if id(variables[i]) in local and results[i] is not None:
            results[i] = backend.shared_out(results[i], options.process_set)
    if backend.dynamic:
        _with_missing_ones(options, backend, results, variables, everyones, absent)
    else:
        backend.compare([i for i in everyones if results[i] is None], options)
        present = [i for i in everyones if results[i] is not None]
        _reduce(options, backend, results, variables, present, {})
    return results


def reduced_if(condition: Any, options: Options, backend: Backend, gradients: Sequence[Any],
               variables: Sequence[Any]) -> Gradients:  # fmt: skip
    """reduced() if the condition is true, which a compiled step decides, else this rank's own
    gradients: dense ones, with None where there is none."""
    own = [None if each is None else backend.to_dense(each) for each in gradients]
    if backend.dynamic:  # the condition is a number already, and gradients may be missing here only
        return reduced(options, backend, own, variables) if bool(condition) else own

    def of_all(given: Sequence[Any]) -> Gradients:
        means = reduced(options, backend, _in_place_of(own, given), variables)
        return [mean for mean in means if mean is not None]

    return _in_place_of(own, backend.either(condition, of_all, [g for g in own if g is not None]))


def _in_place_of(gradients: Gradients, there: Sequence[Any]) -> Gradients:
    """With these instead of those that are not None."""
    rest = iter(there)
    return [None if each is None else next(rest) for each in gradients]


def _with_missing_ones(options: Options, backend: Backend, results: Gradients,
                       variables: Sequence[Any], numbers: Sequence[int],
                       absent: Sequence[Any] | None) -> None:  # fmt: skip
    """A gradient that is missing on some ranks counts as zeros, or as `absent` says; one that is
    missing on all stays None."""
    present = backend.flags([results[i] is not None for i in numbers])
    for i in numbers:
        if results[i] is None:
            results[i] = backend.zeros_like(variables[i]) if absent is None else absent[i]
    present = _reduce(options, backend, results, variables, numbers, {_PRESENT: present}).get(
        _PRESENT
    )
    if present is not None:
        for i, seen in zip(numbers, backend.seen(present), strict=True):
            results[i] = results[i] if seen else None


def _reduce(options: Options, backend: Backend, results: Gradients, variables: Sequence[Any],
            numbers: Sequence[int], beside: Group) -> Group:  # fmt: skip
    """Reduces these of `results`. What is `beside` them travels with the first group."""
    compression = options.compression
    if compression.method is not None:
        return _reduce_compressed(options, backend, results, variables, numbers, beside)
    contexts: dict[int, Any] = {}
    groups: list[Group] = []
    for members in _grouped(options, variables, numbers):
        group = beside if not groups else {}
        for i in members:
            gradient = results[i]
            is_sparse = backend.is_sparse(gradient)
            if is_sparse and options.sparse_as_dense:
                gradient, is_sparse = backend.to_dense(gradient), False
            if not (compression.is_none or is_sparse):
                gradient, contexts[i] = compression.compress(
                    gradient, f"{options.scope}gradient.{i}"
                )
            group[i] = gradient
        groups.append(group)
    received = backend.allreduce(groups, options) if groups else {}
    for i, context in contexts.items():
        received[i] = compression.decompress(received[i], context)
    for i in numbers:
        results[i] = received[i]
    return received


def _grouped(options: Options, variables: Sequence[Any], numbers: Sequence[int]) -> list[list[int]]:
    """Which gradients travel together; all of them unless the program says otherwise."""
    if options.groups is None:
        return [list(numbers)] if numbers else []
    parts = positions(options.groups, [variables[i] for i in numbers])
    listed = {place for part in parts for place in part}
    parts += [[place] for place in range(len(numbers)) if place not in listed]
    return [[numbers[place] for place in part] for part in parts if part]


# ---- with a compressor that has a memory: all gradients side by side, also while traced


def _reduce_compressed(options: Options, backend: Backend, results: Gradients,
                       variables: Sequence[Any], numbers: Sequence[int],
                       beside: Group) -> Group:  # fmt: skip
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
    running = []
    for i, gradient in dense.items():
        flat, shape = algebra.flat(gradient), tuple(gradient.shape)
        state = method.state_of(keys[i], flat, shape, ranks)
        running.append(rounds_of(method.part(keys[i], shape), algebra, flat, state, ranks))
    batcher = RoundBatcher(backend, options, beside)
    scale = factor_of(options.op, options.prescale * options.postscale, ranks)
    for i, (total, state) in zip(dense, run_together(running, batcher.send), strict=True):
        method.keep(keys[i], state)
        received[i] = finish(algebra, total, scale, dense[i])
    for i in numbers:
        results[i] = received[i]
    if not compiled:
        method.stepped(options.process_set)
    return received | batcher.beside


class RoundBatcher:
    """Sends the rounds of a step: all of one kind together. What is `beside` them travels with the
    first ones."""

    def __init__(self, backend: Backend, options: Options, beside: Group) -> None:
        self._backend = backend
        self._options = replace(options, op=SUM, prescale=1.0, postscale=1.0, groups=None)
        self._waiting = beside
        self.beside: Group = {}
        self._count = 0

    def send(self, asked: dict[int, Round]) -> dict[int, Any]:
        """The answers, by the numbers of the rounds."""
        self._count += 1
        options = replace(self._options, scope=f"{self._options.scope}round{self._count}.")
        plain = replace(options, compression=NO_COMPRESSION)
        largest = {n: each for n, each in asked.items() if isinstance(each, Largest)}
        answers = self._encoded(asked, options)
        answers |= self._backend.largest(largest, options) if largest else {}
        return answers | self._gathered(asked, plain) | self._added(asked, plain)

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
        options = replace(options, scope=f"{options.scope}largest.")
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


def begin_memory(options: Options, variables: Sequence[Any]) -> list[Any]:
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


# ---- backward_passes_per_step: gradients of several passes add up, the last pass reduces the sums
#
# A framework keeps the sums and counts the passes; this class says what goes into a sum and what
# leaves it.

_SPARSE = (
    "a gradient is sparse (tf.IndexedSlices), and with backward_passes_per_step > 1 gradients add "
    "up in dense tensors: pass sparse_as_dense=True"
)


class Accumulation:
    def __init__(self, backend: Backend, passes: int, average: bool, sparse_as_dense: bool) -> None:
        self._backend = backend
        self.passes = passes
        self.average = average
        self.sparse_as_dense = sparse_as_dense

    def dense(self, gradient: Any) -> Any:
        """What is added to the sum; None, if the variable got no gradient in this pass."""
        if gradient is None or not self._backend.is_sparse(gradient):
            return gradient
        if not self.sparse_as_dense:
            raise ValueError(_SPARSE)
        return self._backend.to_dense(gradient)

    def result(self, total: Any) -> Any:
        """What is reduced after the last pass: the sum, or the mean over the passes if the program
        asked for it."""
        return total / self.passes if self.average and total is not None else total
