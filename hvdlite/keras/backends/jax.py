"""Keras on JAX: inside the compiled step, and at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.adapter.step import Options
from hvdlite.jax.gradients import allreduce_gradients


class JaxBackend:
    """See hvdlite.keras.backends.Backend."""

    dynamic = False

    def allreduce(self, groups: Sequence[Sequence[Any]], options: Options) -> list[list[Any]]:
        # All groups in one: XLA promises no order between calls, so that two ranks might wait in different ones.
        flat = [gradient for group in groups for gradient in group]
        reduced = iter(allreduce_gradients(flat, options))
        return [[next(reduced) for _ in group] for group in groups]

    def outside(self, function: Callable[..., Any], *given: Any) -> Any:
        return function(*given)

    def is_sparse(self, gradient: Any) -> bool:
        return False

    def to_dense(self, gradient: Any) -> Any:
        return gradient

    def scaled(self, gradient: Any, factor: float) -> Any:
        return gradient * factor


BACKEND = JaxBackend()
