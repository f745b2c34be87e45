"""Values that ranks have logged, on their way to the callbacks of the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Callback = Callable[[list[Any]], Any]


def pass_on(queue: Any, callbacks: Sequence[Callback]) -> None:
    """Gives each callback what is in the queue (ray.util.queue.Queue)."""
    waiting = queue.qsize()
    if waiting:
        values = queue.get_nowait_batch(waiting)
        for callback in callbacks:
            callback(values)
