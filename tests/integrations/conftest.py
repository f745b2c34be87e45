"""Each test runs the real library, has a watchdog, and leaves no process behind."""

from watched import job, watchdog

__all__ = ["job", "watchdog"]
