"""Where an Estimator trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hvdlite.spark import runner, sessions

__all__ = ["Backend", "SparkBackend", "default_num_proc"]


def default_num_proc() -> int:
    """Returns how many processes run() starts unless its caller says so."""
    return runner.size_of(sessions.active(), None)


class Backend:
    """Runs a function in all processes of a job."""

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """Returns the results in the order of the ranks."""
        raise NotImplementedError

    def num_processes(self) -> int:
        raise NotImplementedError


class SparkBackend(Backend):
    """Trains on the executors, by hvdlite.spark.run(), to which `kwargs` go."""

    def __init__(
        self, num_proc: int | None = None, env: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        self._num_proc = num_proc or default_num_proc()
        self._env = dict(env or {})
        self._kwargs = kwargs

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[Any]:
        return runner.run(
            fn, args, kwargs, self._num_proc, env={**self._env, **(env or {})}, **self._kwargs
        )

    def num_processes(self) -> int:
        return self._num_proc
