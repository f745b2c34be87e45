"""`hvdlite.spark.run_elastic(fn)`: what a user chooses."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from hvdlite.base import knobs
from hvdlite.launch import function
from hvdlite.launch.elastic import options
from hvdlite.launch.elastic.options import Policy
from hvdlite.spark import runner, sessions, slots
from hvdlite.spark.elastic import job

__all__ = ["run_elastic"]


def run_elastic(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    start_timeout: float | None = None,
    elastic_timeout: float | None = None,
    reset_limit: int | None = None,
    env: Mapping[str, str] | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    verbose: int = 1,
    nics: Sequence[str] | str | None = None,
    prefix_output_with_timestamp: bool = False,
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Any]:
    """Calls `fn(*args, **kwargs)` on the executors of Spark, in a job that goes on when executors
    die and grows when they come. Returns the results of the last ranks, in their order.

    The function calls `hvd.init()` and `hvd.elastic.run` (docs/guides/elastic.md).

    The job begins with `num_proc` ranks, goes on while `min_num_proc` are left, and grows to
    `max_num_proc`; both are `num_proc` if not given. `start_timeout`: seconds until the first
    `num_proc` tasks have to run (HVDLITE_SPARK_START_TIMEOUT). `elastic_timeout`: how long the job
    waits below `min_num_proc` (HOROVOD_ELASTIC_TIMEOUT, or 600). `reset_limit`: how often the ranks
    may change. The other parameters are those of run(). `min_np` and `max_np` are deprecated names.

    It needs a classic session: over Spark Connect the executors have no way to this program.
    """
    least, most = _renamed(min_np, max_np, min_num_proc, max_num_proc)
    session = sessions.active()
    if not sessions.is_classic(session):
        raise NotImplementedError(
            "hvdlite.spark.run_elastic() needs a classic session: over Spark Connect the executors "
            "have no way to this program, which has to hear of each rank. hvdlite.spark.run() "
            "works there."
        )
    size = runner.size_of(session, num_proc, "run_elastic")
    if num_proc is None:  # the session's size is only a proposal
        size = max(least or 1, min(size, most or size))
    payload = function.pickled(fn, args, kwargs, "hvdlite.spark.run_elastic")
    values = knobs.resolve(os.environ)
    policy = policy_of(
        size,
        least,
        most,
        elastic_timeout or options.timeout(os.environ),
        reset_limit,
        float(values["heartbeat_seconds"]),
    )
    at_most = slots.most(lambda key: sessions.conf(session, key))
    if at_most is not None and at_most < size:
        raise ValueError(slots.too_few(size, at_most, "run_elastic"))
    start = values["spark_start_timeout_seconds"] if start_timeout is None else start_timeout
    choice = job.ElasticChoices(
        float(start),
        float(values["grace_seconds"]),
        runner.environment(os.environ, env, nics),
        runner.names(nics),
        stdout,
        stderr,
        prefix_output_with_timestamp,
    )
    return job.run(session, payload, policy, choice)


def policy_of(
    size: int,
    least: int | None,
    most: int | None,
    elastic_timeout: float | None,
    reset_limit: int | None,
    silence_seconds: float,
) -> Policy:
    """Raises ValueError unless `least` <= `size` <= `most`. Pure."""
    least, most = least or size, most or size
    if not 1 <= least <= size <= most:
        raise ValueError(
            f"hvdlite.spark.run_elastic(num_proc={size}, min_num_proc={least}, "
            f"max_num_proc={most}) is not allowed: min_num_proc is at most num_proc, and num_proc "
            "at most max_num_proc."
        )
    return Policy(
        size,
        least,
        most,
        elastic_timeout=float(elastic_timeout or Policy.elastic_timeout),
        reset_limit=reset_limit,
        silence_seconds=silence_seconds,
    )


def _renamed(
    min_np: int | None, max_np: int | None, least: int | None, most: int | None
) -> tuple[int | None, int | None]:
    if min_np is not None or max_np is not None:
        warnings.warn(
            "hvdlite.spark.run_elastic(min_np=..., max_np=...) is deprecated: use min_num_proc and "
            "max_num_proc.",
            DeprecationWarning,
            stacklevel=3,
        )
    return (least if min_np is None else min_np), (most if max_np is None else max_np)
