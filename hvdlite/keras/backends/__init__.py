"""What hvdlite.keras must know about the backend that Keras runs on. One file each; only the one in
use is imported.

    tensorflow    START HERE: eagerly, in graphs, and in what XLA compiles
    torch         everything happens at once
    jax           inside the compiled step, and at once
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from hvdlite.adapter.at_once import primitives
from hvdlite.adapter.compression.algebra import Algebra
from hvdlite.keras.flavour import backend_name

#: Makes a step by what it is given, perhaps again and again, or leaves it out. Returns its logs.
Turn = Callable[[Callable[[Any], Any]], Any]


class Backend(primitives.Backend):
    #: for compressors with a memory
    algebra: Algebra
    #: whether the optimizer must have their memory, because a step is a function of its variables
    keeps_memory_in_optimizer = False

    def outside(self, function: Callable[..., Any], *given: Any) -> Any:
        """function(*given), outside of what is being compiled where hvdlite cannot be inside."""
        return function(*given)

    def trace_step(
        self, model: Any, step: Callable[..., Any], batch: Any
    ) -> Callable[[], Any] | None:
        """Traces what fit() calls for a batch like this one, and does not make the step. Returns
        what compiles it, in any thread; None: nothing is left to do."""
        return None

    def in_turns(self, model: Any, step: Callable[..., Any], turn: Turn) -> Callable[..., Any]:
        """What fit() calls in the place of `step`. Here variables change in place."""
        return lambda given: turn(lambda batch: step([batch]))


def chosen() -> Backend:
    """The one that Keras runs on."""
    backend: Backend = import_module(f"hvdlite.keras.backends.{backend_name()}").BACKEND
    return backend
