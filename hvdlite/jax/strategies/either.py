"""What depends on a number of the step: at once, or in a compiled program."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from hvdlite.jax import trace, traced

Array = Any

_BEGIN = time.monotonic()  # float32 has not enough digits for the clock of a machine


def either(condition: Any, change: Callable[[Any], Any], given: Any) -> Any:
    """change(given) if the condition is true, else `given`."""
    if not trace.is_tracing():
        return change(given) if bool(condition) else given

    def changed(token: Array, given: Any) -> tuple[Array, Any]:
        with traced.after(token):
            result = change(given)
            return traced.token(), result

    def same(token: Array, given: Any) -> tuple[Array, Any]:
        return token, given

    # The token goes through, so that other collectives of the program keep their order.
    token, result = jax.lax.cond(condition, changed, same, traced.token(), given)
    traced.follow(token)
    return result


def seconds() -> Any:
    """The clock of this process; of a compiled program, when it runs."""
    if not trace.is_tracing():
        return time.monotonic() - _BEGIN
    return io_callback(_seconds, jax.ShapeDtypeStruct((), jnp.float32))


def _seconds() -> Any:
    return np.float32(time.monotonic() - _BEGIN)
