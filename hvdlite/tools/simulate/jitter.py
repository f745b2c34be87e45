"""How late the slowest of many ranks is. Pure."""

from __future__ import annotations

import functools
from statistics import NormalDist

_REACH = 9.0  # standard deviations; beyond lies nothing, for fewer than 10^15 ranks
_STEPS = 3600


@functools.cache
def expected_maximum(ranks: int) -> float:
    """The mean of the largest of so many draws from the standard normal distribution."""
    if ranks == 1:
        return 0.0
    normal = NormalDist()
    width = 2 * _REACH / _STEPS
    middles = (-_REACH + (step + 0.5) * width for step in range(_STEPS))
    below = sum(normal.cdf(x) ** ranks for x in middles) * width
    # The mean of a variable on [-R, R] is R minus the integral of its distribution function.
    return _REACH - below


def stretch(ranks: int, deviation: float) -> float:
    """How many times the mean time the slowest rank computes. Times of single ranks scatter by
    this share of their mean."""
    return 1 + deviation * expected_maximum(ranks)
