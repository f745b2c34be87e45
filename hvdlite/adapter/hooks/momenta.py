"""Momentum of gradients that a compression leaves dense: each rank adds it before they travel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hvdlite.adapter.compression.algebra import Array
from hvdlite.adapter.compression.methods import Method, Momentum
from hvdlite.adapter.hooks.primitives import Gradients
from hvdlite.core.framework import Tensor
from hvdlite.core.process_sets import ProcessSet

if TYPE_CHECKING:
    from hvdlite.adapter.hooks.reducer import PendingGradient


class Momenta:
    """Of one optimizer. The velocities are in the memory of its method."""

    def __init__(
        self, method: Method | None, gradients: Gradients, process_set: ProcessSet
    ) -> None:
        self._method = method
        self._gradients = gradients
        self._process_set = process_set
        # Of this step: the gradient has its momentum, and the memory has the old velocity.
        self._after: dict[int, tuple[PendingGradient, Array]] = {}

    def add(self, entries: Iterable[PendingGradient]) -> None:
        """Gradients become steps, in place and once in a step, if they are dense and are to have
        momentum."""
        together: dict[Momentum, list[tuple[PendingGradient, Tensor]]] = {}
        for entry in entries:
            if entry.momentum is None or entry.place in self._after:
                continue
            gradient = self._gradients.of(entry.parameter)
            if gradient is not None and self._gradients.is_dense(gradient):
                together.setdefault(entry.momentum, []).append((entry, gradient))
        for momentum, members in together.items():
            old = [self._velocity(*each) for each in members]
            gradients = [gradient for _, gradient in members]
            new = self._gradients.batched.add_momentum(gradients, old, momentum)
            for (entry, _), velocity in zip(members, new, strict=True):
                self._after[entry.place] = entry, velocity

    def _velocity(self, entry: PendingGradient, gradient: Tensor) -> Array:
        assert self._method is not None
        shape = self._gradients.ops.framework.shape(gradient)
        ranks = self._process_set.size() or 1
        return self._method.state_of(entry.label, gradient, shape, ranks)["velocity"]

    def keep(self) -> None:
        """All gradients have arrived. A velocity enters the memory if the result is finite, as that
        of all ranks does."""
        if self._method is None or not self._after:
            return
        after, self._after = list(self._after.values()), {}
        results = [self._gradients.of(entry.parameter) for entry, _ in after]
        are_finite = self._gradients.batched.are_finite
        fine = are_finite(results)
        for (entry, velocity), result in zip(after, results, strict=True):
            if fine or are_finite([result]):
                self._method.keep(entry.label, {"velocity": velocity})

    def forget(self) -> None:
        """The step has failed."""
        self._after.clear()
