"""The gradients of one step, from this rank's to those of all ranks. On tensors of every backend, also while traced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from hvdlite.adapter.grouping import positions
from hvdlite.adapter.step import NO_COMPRESSION, Options
from hvdlite.keras.backends import Backend
from hvdlite.keras.flavour import KERAS

Gradients = list[Any]  # None for a variable that got none


def reduced(
    options: Options,
    backend: Backend,
    gradients: Sequence[Any],
    variables: Sequence[Any],
    local: Collection[int] = (),
) -> Gradients:
    """`local`: the ids of variables whose gradients stay here; they are divided by the number of ranks if it was asked for."""
    if not options.reduces():
        return list(gradients)
    results = list(gradients)
    shared = []
    for i, (gradient, variable) in enumerate(zip(gradients, variables, strict=True)):
        if id(variable) not in local:
            shared.append(i)
        elif gradient is not None and options.scale_local:
            results[i] = backend.scaled(gradient, 1.0 / (options.process_set.size() or 1))
    if backend.dynamic:
        _with_missing_ones(options, backend, results, variables, shared)
    else:
        _travel(options, backend, results, variables, [i for i in shared if results[i] is not None])
    return results


def _with_missing_ones(
    options: Options, backend: Backend, results: Gradients, variables: Sequence[Any], shared: Sequence[int]
) -> None:
    """Ranks may differ about which variables got a gradient: a missing one counts as zeros, unless all ranks miss it."""
    present = KERAS.ops.convert_to_tensor([float(results[i] is not None) for i in shared], "float32")
    for i in shared:
        if results[i] is None:
            results[i] = KERAS.ops.zeros_like(variables[i])
    others = _travel(options, backend, results, variables, shared, present)
    if others is not None:
        for i, seen in zip(shared, KERAS.ops.convert_to_numpy(others), strict=True):
            if not seen:
                results[i] = None


def _travel(
    options: Options,
    backend: Backend,
    results: Gradients,
    variables: Sequence[Any],
    numbers: Sequence[int],
    present: Any = None,
) -> Any:
    """Reduces these of `results`. `present` travels with the first group."""
    groups = _grouped(options, variables, numbers)
    if not groups:
        return None
    payloads: list[list[Any]] = []
    restorers: list[list[Callable[[Any], Any] | None]] = []
    for group in groups:
        packed = [_packed(options, backend, results[i], f"{options.scope}gradient.{i}") for i in group]
        payloads.append([payload for payload, _ in packed])
        restorers.append([restore for _, restore in packed])
    if present is not None:
        payloads[0].append(present)
    received = backend.allreduce(payloads, replace(options, compression=NO_COMPRESSION))
    others = received[0].pop() if present is not None else None
    for group, restores, tensors in zip(groups, restorers, received, strict=True):
        for i, restore, tensor in zip(group, restores, tensors, strict=True):
            results[i] = tensor if restore is None else restore(tensor)
    return others


def _packed(options: Options, backend: Backend, gradient: Any, name: str) -> tuple[Any, Callable[[Any], Any] | None]:
    """What travels instead of the gradient, and what makes it the gradient again."""
    compression = options.compression
    if backend.is_sparse(gradient):
        if not options.sparse_as_dense:
            return gradient, None
        gradient = backend.to_dense(gradient)
    if compression.is_none:
        return gradient, None
    payload, context = compression.compress(gradient, name)
    return payload, lambda received: compression.decompress(received, context)


def _grouped(options: Options, variables: Sequence[Any], numbers: Sequence[int]) -> list[list[int]]:
    """Which gradients travel together; all of them unless the program says otherwise."""
    if options.groups is None:
        return [list(numbers)] if numbers else []
    parts = positions(options.groups, [variables[i] for i in numbers])
    listed = {place for part in parts for place in part}
    parts += [[place] for place in range(len(numbers)) if place not in listed]
    return [[numbers[place] for place in part] for part in parts if part]
