"""horovod.runner.common.util.timeout: one limit for several waits."""

from __future__ import annotations

import time

__all__ = ["Timeout", "TimeoutException"]


class TimeoutException(Exception):
    """The time is over."""


class Timeout:
    """`message` says what to do, with places for {timeout} and {activity}."""

    def __init__(self, timeout: float, message: str) -> None:
        self._timeout = timeout
        self._end = time.monotonic() + timeout
        self._message = message

    def remaining(self) -> float:
        """Seconds; 0 when the time is over."""
        return max(0.0, self._end - time.monotonic())

    def timed_out(self) -> bool:
        return self.remaining() == 0.0

    def check_time_out_for(self, activity: str) -> None:
        """TimeoutException: the time is over, and `activity` has not been done."""
        if self.timed_out():
            raise TimeoutException(self._message.format(activity=activity, timeout=self._timeout))
