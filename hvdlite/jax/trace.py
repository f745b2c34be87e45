"""What JAX is doing with the caller: whether what it does is done, or recorded."""

from __future__ import annotations

from typing import Any

import jax

try:
    from jax.extend.core import get_opaque_trace_state as _state
except ImportError:  # before 0.10

    def _state() -> Any:
        return jax.core.get_opaque_trace_state("hvdlite")


def state() -> Any:
    """Equal for two callers in the same trace."""
    return _state()


with jax.ensure_compile_time_eval():
    _NONE = state()


def is_tracing() -> bool:
    """Whether a transformation runs the caller, so that what it does is recorded rather than
    done."""
    return bool(state() != _NONE)
