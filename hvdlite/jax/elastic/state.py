"""JaxState: pytrees of arrays, and all else that a program trains with."""

from __future__ import annotations

from typing import Any

from hvdlite.elastic.handlers import StateHandler
from hvdlite.elastic.state import ObjectState, always
from hvdlite.jax import functions
from hvdlite.jax.elastic.trees import TreeHandler, arrays_of, wait
from hvdlite.job import basics

__all__ = ["JaxState"]


class JaxState(ObjectState):
    """Keywords are attributes: pytrees, what has a state_dict(), and objects.

    A pytree is given another value by assigning it: `state.params = params`. Without donated
    arguments step() and commit() copy no array, but keep those of then. `copies="always"` is for
    programs some of whose steps donate the state's arrays (donate_argnums); where all of them do,
    the state notices.
    """

    def __init__(self, *, copies: str = "auto", **kwargs: Any) -> None:
        self._always = always(copies)
        super().__init__(functions.broadcast_object, basics.rank, **kwargs)

    def _handler_of(self, value: Any) -> StateHandler | None:
        found = super()._handler_of(value)
        return TreeHandler(value, self._always) if found is None and arrays_of(value) else found

    def _at_boundary(self) -> None:
        # A step counts once it is done; JAX returns before that.
        wait([handler.value for handler in self._handlers.values()])
        super()._at_boundary()
