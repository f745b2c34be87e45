"""Round numbers for axes, and marks on the axis of time. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIMES = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
    172800, 604800, 1209600, 2419200,
)  # fmt: skip


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


def rounded_up(value: float) -> float:
    """The least round number that is not smaller."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in _STEPS if power * step >= value * (1 - 1e-9))


def step_for(most: float, parts: int) -> float:
    """A round step, of which about `parts` reach up to `most`."""
    return rounded_up(most / parts)


def ticks(most: float, parts: int = 4) -> list[float]:
    """0 and round numbers up to `most`, which is one of them at best."""
    step = step_for(most, parts)
    return [step * i for i in range(math.floor(most / step + 1e-9) + 1)]


def times(seconds: float, parts: int = 6) -> list[Tick]:
    """Marks at round times since the beginning."""
    step = next((each for each in _TIMES if seconds / each <= parts), 10 * _TIMES[-1])
    return [Tick(at, _clock(at, step)) for at in range(0, math.floor(seconds) + 1, step)]


def _clock(at: int, step: int) -> str:
    if step >= 86400:
        return f"{at // 86400} d"
    if step >= 3600:
        return f"{at // 3600} h"
    if step >= 60:
        return f"{at // 3600}:{at % 3600 // 60:02} h" if at >= 3600 else f"{at // 60} min"
    return f"{at // 60}:{at % 60:02} min" if at >= 60 else f"{at} s"


def unit_of(most: float) -> tuple[float, str]:
    """How many of which unit of time make a second, for an axis up to so many seconds."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if most * factor >= 1:
            return factor, unit
    return 1e6, "µs"


def number(value: float) -> str:
    """As short as it is exact: 0.25, 100."""
    return f"{value:.10g}"


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
