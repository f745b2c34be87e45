"""Values that ranks send to the callbacks of the driver.

ray_logger.log({"loss": 0.3})                     in the function of a rank
executor.run(train, callbacks=[lambda values: ...])   gets lists of such dictionaries
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Callback = Callable[[list[Any]], Any]

_queue: Any = None


def configure(queue: Any = None) -> None:
    """Sets the queue (ray.util.queue.Queue) of this process. None: log() does nothing."""
    global _queue
    _queue = queue


def log(info_dict: dict[str, Any]) -> None:
    """Sends a value to the callbacks, if the run has any."""
    if _queue is not None:
        _queue.put(info_dict)


def pass_on(queue: Any, callbacks: Sequence[Callback]) -> None:
    """Gives each callback what is in the queue (ray.util.queue.Queue)."""
    waiting = queue.qsize()
    if waiting:
        values = queue.get_nowait_batch(waiting)
        for callback in callbacks:
            callback(values)
