"""The learning rate of a large job: as many times that of one rank as there are ranks, reached step
by step. DECIDES, knows numbers."""

from __future__ import annotations

from typing import Any


def factor(step: Any, steps: int, scale: float, ops: Any) -> Any:
    """By what the learning rate of one rank is multiplied in a step, which counts from 0.

    It grows evenly, up to `scale` in the last of `steps`. `ops`: numpy or jax.numpy.
    """
    if steps < 1:
        return scale
    return 1.0 + (scale - 1.0) * ops.minimum((step + 1.0) / steps, 1.0)
