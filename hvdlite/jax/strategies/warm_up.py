"""The learning rate of a large job, as a schedule of optax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from hvdlite.adapter import warm_up
from hvdlite.job import basics


def linear_warm_up(
    learning_rate: Any, steps: int, scale: float | None = None
) -> Callable[[Any], Any]:
    """A schedule that rises in the course of `steps` steps from `learning_rate`, which is that of
    one rank, to `scale` times as much (https://arxiv.org/abs/1706.02677).

    `scale` is the number of ranks unless you say otherwise; a compiled step keeps the one with
    which it was compiled. `learning_rate` may be a schedule itself.
    """

    def schedule(step: Any) -> Any:
        most = float(basics.size() if scale is None else scale)
        rate = learning_rate(step) if callable(learning_rate) else learning_rate
        return rate * warm_up.factor(step, steps, most, jnp)

    return schedule
