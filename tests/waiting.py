"""Waiting for an event that can only be looked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from machine import within

Found = TypeVar("Found")


def wait_until(
    look: Callable[[], Found], seconds: float = 20, said: Callable[[], object] = lambda: ""
) -> Found:
    """What `look` finds, as soon as it is not false. `said`: what is known when it does not
    come."""
    deadline = time.monotonic() + within(seconds)
    while not (found := look()):
        assert time.monotonic() < deadline, (
            f"it has not come within {within(seconds):g} s: {said()}"
        )
        time.sleep(0.01)  # poll
    return found
