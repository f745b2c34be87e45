"""The gradients of a step: those of all ranks, or this rank's own, as a compiled step decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.adapter.at_once.reduction import reduced
from hvdlite.adapter.step import Options
from hvdlite.keras import backends
from hvdlite.keras.strategies.conditions import chosen


def reduced_if(
    condition: Any, options: Options, gradients: Sequence[Any], variables: Sequence[Any]
) -> list[Any]:
    """reduced() if the condition is true, else the gradients themselves: dense, with None where
    there is none."""
    backend = backends.chosen()
    if backend.dynamic:  # the condition is a number already, and gradients may be missing here only
        dense = [None if each is None else backend.to_dense(each) for each in gradients]
        return reduced(options, backend, dense, variables) if bool(condition) else dense
    results = list(gradients)
    there = [i for i, gradient in enumerate(gradients) if gradient is not None]
    own = [backend.to_dense(gradients[i]) for i in there]

    def of_all(given: list[Any]) -> list[Any]:
        whole = [None] * len(results)
        for i, gradient in zip(there, given, strict=True):
            whole[i] = gradient
        means = reduced(options, backend, whole, variables)
        return [means[i] for i in there]

    for i, gradient in zip(there, chosen(condition, of_all, own), strict=True):
        results[i] = gradient
    return results
