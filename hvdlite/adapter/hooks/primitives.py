"""The primitives that reducer.py needs of a framework whose parameters keep their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from hvdlite.adapter.agreement.drift_guard import Reader
from hvdlite.adapter.compression.algebra import Array
from hvdlite.adapter.compression.methods import Momentum
from hvdlite.core.collectives import Collectives
from hvdlite.core.framework import Tensor
from hvdlite.core.process_sets import ProcessSet

Hook = Callable[[Any], None]


class Batched(Protocol):
    """Arithmetic on many gradients at a time: hundreds of small ones take as long as a few."""

    def add_momentum(
        self, gradients: Sequence[Tensor], velocities: Sequence[Array], momentum: Momentum
    ) -> Sequence[Array]:
        """Makes steps of gradients, in place, and new velocities, which are returned (both float32
        in one dimension)."""

    def are_finite(self, gradients: Sequence[Tensor]) -> bool:
        """Whether all numbers of all gradients are finite."""


class Gradients(Protocol):
    """The primitives."""

    ops: Collectives

    @property
    def batched(self) -> Batched: ...

    @property
    def reader(self) -> Reader:
        """Reads parameters, for the drift guard."""

    @property
    def unrecorded(self) -> Callable[[], AbstractContextManager[Any]]:
        """Makes a context in which nothing that happens to tensors has a gradient."""

    def wanted(self, parameter: Any) -> bool:
        """Whether the parameter gets gradients; a program may change that."""

    def expect(self, parameters: Sequence[Any], owner: object) -> object:
        """Gradients of these parameters are to come while the owner lives: may prepare memory."""

    def of(self, parameter: Any) -> Tensor | None:
        """The gradient, in its own memory; None: there is none."""

    def put(self, parameter: Any, gradient: Tensor) -> None:
        """Makes this the parameter's gradient: in the memory of the one that it has."""

    def replace(self, parameter: Any, gradient: Tensor) -> None:
        """Makes this the parameter's gradient: with memory of its own."""

    def is_dense(self, gradient: Tensor) -> bool: ...

    def sparse_dimensions(self, gradient: Tensor) -> int:
        """How many of its dimensions are sparse; 0: none."""

    def to_dense(self, gradient: Tensor) -> Tensor: ...

    def to_sparse(self, gradient: Tensor, like: Tensor) -> Tensor: ...

    def start_sparse(
        self, gradient: Tensor, name: str, op: int, process_set: ProcessSet
    ) -> Callable[[], Tensor]:
        """Starts the reduction of a sparse gradient; the function returned waits for it."""

    def zeros(self, parameter: Any, sparse_dimensions: int) -> Tensor:
        """A gradient of zeros of that kind."""

    def fingerprint(self, parameter: Any) -> int:
        """A number that differs if the contents do."""

    def take(self, parameter: Any, reducer: Any, hook: Hook) -> Any:
        """From now on only this hook is called, with the parameter, when its gradient is complete.
        Returns the reducer that had one before and still exists."""

    def release(self, parameter: Any) -> None:
        """From now on no hook is called for this parameter."""
