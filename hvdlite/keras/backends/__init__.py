"""What hvdlite.keras must know about the backend that Keras runs on. One file each; only the one in use is imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol

from hvdlite.adapter.step import Options
from hvdlite.keras.flavour import backend_name

Tensor = Any  # the backend's own


class Backend(Protocol):
    @property
    def dynamic(self) -> bool:
        """Whether a variable may get a gradient in one step and none in the next, so that ranks may differ about it."""

    def allreduce(self, groups: Sequence[Sequence[Tensor]], options: Options) -> list[list[Tensor]]:
        """The gradients of all ranks: at once, or as part of the step that is being traced."""

    def outside(self, function: Callable[..., Any], *given: Any) -> Any:
        """function(*given), outside of what is being compiled where hvdlite cannot be inside."""

    def is_sparse(self, gradient: Tensor) -> bool: ...

    def to_dense(self, gradient: Tensor) -> Tensor: ...

    def scaled(self, gradient: Tensor, factor: float) -> Tensor:
        """gradient * factor, for sparse ones as well."""


def chosen() -> Backend:
    """The one that Keras runs on."""
    backend: Backend = import_module(f"hvdlite.keras.backends.{backend_name()}").BACKEND
    return backend
