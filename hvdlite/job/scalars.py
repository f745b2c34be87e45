"""hvdlite's numbers for TensorBoard, Weights & Biases or MLflow: plain numbers by name.

The names are a promise, as those of `--metrics-port` are: dashboards are built on them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from hvdlite.job import observe

__all__ = ["metric_scalars"]

STEP = "hvdlite/step_seconds"


class Scalars:
    """Each reading covers the time since the reading before."""

    def __init__(self) -> None:
        self._clock = time.monotonic()
        self._before: Mapping[str, Any] = observe.metrics()
        self._recent = observe.Recent()

    def read(self, steps: int | None = None) -> dict[str, float]:
        """`steps`: how many there were since the reading before; None: names of operations tell."""
        now, counters = time.monotonic(), observe.metrics()
        seconds = max(now - self._clock, 1e-9)
        before: Mapping[str, Any] = self._before
        if counters.get("operations", 0) < before.get("operations", 0):
            before = {}  # another job has begun

        def growth(counter: str) -> float:
            return float(counters.get(counter, 0) - before.get(counter, 0))

        operations = growth("operations")
        if steps is None:
            per_step = self._recent.look(counters.get("operations", 0)).per_step
            counted = operations / per_step if per_step else 0
        else:
            counted = steps
        self._clock, self._before = now, counters
        return {
            STEP: seconds / counted if counted else 0.0,
            "hvdlite/waiting_ratio": min(growth("seconds_negotiating") / seconds, 1.0),
            "hvdlite/moving_ratio": min(growth("seconds_moving") / seconds, 1.0),
            "hvdlite/operations_per_second": operations / seconds,
            "hvdlite/bytes_per_second": growth("bytes") / seconds,
        }


class OfEpoch:
    """The numbers of an epoch, whose steps the caller counts. It begins now."""

    def __init__(self) -> None:
        self.steps = 0
        self._scalars = Scalars()
        self._numbers: dict[str, float] | None = None

    def end(self) -> dict[str, float]:
        """Returns the numbers. The first call ends the epoch."""
        if self._numbers is None:
            self._numbers = self._scalars.read(self.steps)
        return self._numbers


_scalars: Scalars | None = None


def metric_scalars() -> dict[str, float]:
    """Returns this rank's numbers since the call before, by name, for a writer of scalars:

        for name, value in hvd.metric_scalars().items():
            writer.add_scalar(name, value, step)

    `hvdlite/step_seconds` is the time of a step, which ends where the names of operations return; 0
    if they do not. `hvdlite/waiting_ratio` is the share of the time in which this rank waited for
    other ranks' operations, and `hvdlite/moving_ratio` the share in which tensors were in flight.
    The others are `hvdlite/operations_per_second` and `hvdlite/bytes_per_second`. The first call
    returns zeros: it begins the time.
    """
    global _scalars
    if _scalars is None:
        _scalars = Scalars()
    return _scalars.read()
