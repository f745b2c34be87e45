"""Elastic training with JAX: a job whose ranks may die, leave and come while it trains.

    state = hvd.elastic.JaxState(params=params, opt_state=opt_state, batch=0)

    @hvd.elastic.run
    def train(state):
        while state.batch < 1000:
            state.params, state.opt_state = step(state.params, state.opt_state, ...)
            state.batch += 1
            state.step()

The function that `run` decorates may fail with JAX's errors: those of hvdlite in them count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hvdlite import elastic as _elastic
from hvdlite.elastic import *  # noqa: F403
from hvdlite.jax.elastic.state import JaxState as JaxState
from hvdlite.jax.functions import translated_errors as _translated_errors

_Result = TypeVar("_Result")

__all__ = ["JaxState", *_elastic.__all__]


def run(func: Callable[..., _Result]) -> Callable[..., _Result]:  # type: ignore[no-redef]
    """hvdlite.elastic.run(), which understands JAX's errors too."""
    return _elastic.run(_translated_errors()(func))
