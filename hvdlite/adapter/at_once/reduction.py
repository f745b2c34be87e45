"""The gradients of a step, from this rank's to those of all ranks: over the primitives of a
backend, also while traced."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hvdlite.adapter.at_once import compressing
from hvdlite.adapter.at_once.primitives import Backend, Group
from hvdlite.adapter.grouping import positions
from hvdlite.adapter.step import Options

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
        _travel(
            options,
            backend,
            results,
            variables,
            [i for i in everyones if results[i] is not None],
            {},
        )
    return results


def _with_missing_ones(options: Options, backend: Backend, results: Gradients,
                       variables: Sequence[Any], numbers: Sequence[int],
                       absent: Sequence[Any] | None) -> None:  # fmt: skip
    """A gradient that is missing on some ranks counts as zeros, or as `absent` says; one that is
    missing on all stays None."""
    present = backend.flags([results[i] is not None for i in numbers])
    for i in numbers:
        if results[i] is None:
            results[i] = backend.zeros_like(variables[i]) if absent is None else absent[i]
    present = _travel(options, backend, results, variables, numbers, {_PRESENT: present}).get(
        _PRESENT
    )
    if present is not None:
        for i, seen in zip(numbers, backend.seen(present), strict=True):
            results[i] = results[i] if seen else None


def _travel(options: Options, backend: Backend, results: Gradients, variables: Sequence[Any],
            numbers: Sequence[int], beside: Group) -> Group:  # fmt: skip
    """Reduces these of `results`. What is `beside` them travels with the first group."""
    compression = options.compression
    if compression.method is not None:
        return compressing.travel(options, backend, results, variables, numbers, beside)
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
