"""Keras on JAX: inside the compiled step, and at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.jax.gradients import allreduce_gradients
from hvdlite.keras.backends import Way


class JaxBackend:
    """See hvdlite.keras.backends.Backend."""

    dynamic = False

    def allreduce(self, scope: str, groups: Sequence[Sequence[Any]], way: Way) -> list[list[Any]]:
        # All groups in one: XLA promises no order between calls, so that two ranks might wait in different ones.
        flat = [gradient for group in groups for gradient in group]
        reduced = iter(
            allreduce_gradients(
                flat,
                op=way.op,
                prescale=way.prescale,
                postscale=way.postscale,
                process_set=way.process_set,
                scope=scope,
            )
        )
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
