"""What JAX is doing with the caller: whether what it does is done, or recorded."""

from __future__ import annotations

from typing import Any

import jax

# state(): equal for two callers in the same trace
try:
    from jax.extend.core import get_opaque_trace_state

    state: Any = get_opaque_trace_state
except ImportError:  # before 0.10

    def state() -> Any:
        return jax.core.get_opaque_trace_state("hvdlite")


with jax.ensure_compile_time_eval():
    _NONE = state()


def is_tracing() -> bool:
    """Whether a transformation runs the caller, so that what it does is recorded rather than
    done."""
    return bool(state() != _NONE)
