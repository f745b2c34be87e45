"""Collects what the ranks return or raise. `blame` decides how long it is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from hvdlite.exceptions import PeerLostError, ShutDownError
from hvdlite.ray.blame import SETTLE_SECONDS, Failures, Kind

_GLANCE_SECONDS = 0.1  # at the values for callbacks


@dataclass
class Gathered:
    """By rank. `running`: ranks that have not ended in time. `cause`: the rank to blame."""

    results: dict[int, Any] = field(default_factory=dict)
    errors: dict[int, Exception] = field(default_factory=dict)
    running: list[int] = field(default_factory=list)
    cause: int | None = None

    def gone(self) -> list[int]:
        """Returns the ranks whose actors are dead."""
        return [rank for rank, error in self.errors.items() if kind_of(error) is Kind.DEATH]


def gather(
    refs: Sequence[Any],
    blame: Callable[[int, Exception], None],
    glance: Callable[[], None] | None = None,
) -> Gathered:
    """Returns when all ranks have ended, or had time to after a failure.

    `blame` is called once, when the cause of a failure is known. `glance` is called often.
    """
    running = {ref: rank for rank, ref in enumerate(refs)}
    failures, found = Failures(), Gathered()
    while running:
        left = failures.left(running.values(), time.monotonic())
        if left == 0.0:
            break
        _take(running, _pause(left, glance is not None, found.cause), failures, found)
        if found.cause is None:
            found.cause = failures.cause(time.monotonic())
            if found.cause is not None:
                blame(found.cause, found.errors[found.cause])
        if glance is not None:
            glance()
    found.running = sorted(running.values())
    if found.cause is None and found.errors:
        found.cause = failures.first()
    return found


def kind_of(error: Exception) -> Kind:
    if not isinstance(error, RayTaskError):
        return Kind.DEATH
    if isinstance(error.cause, (PeerLostError, ShutDownError)):
        return Kind.CONSEQUENCE
    # An actor whose constructor has raised is dead.
    return Kind.DEATH if isinstance(error.cause, RayActorError) else Kind.OWN


def _take(
    running: dict[Any, int], pause: float | None, failures: Failures, found: Gathered
) -> None:
    done, _ = ray.wait(list(running), num_returns=1, timeout=pause)
    for ref in done:
        rank = running.pop(ref)
        try:
            found.results[rank] = ray.get(ref)
        except Exception as error:
            found.errors[rank] = error
            failures.note(rank, kind_of(error), time.monotonic())


def _pause(left: float | None, glances: bool, cause: int | None) -> float | None:
    reasons = [
        left,
        _GLANCE_SECONDS if glances else None,
        SETTLE_SECONDS if left is not None and cause is None else None,
    ]
    return min((seconds for seconds in reasons if seconds is not None), default=None)
