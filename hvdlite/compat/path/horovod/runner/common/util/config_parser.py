"""horovod.runner.common.util.config_parser: the names of the knobs' variables, and their values
from parsed flags."""

from __future__ import annotations

from typing import Any

__all__ = ["set_env_from_args"]

HOROVOD_FUSION_THRESHOLD = "HOROVOD_FUSION_THRESHOLD"
HOROVOD_CYCLE_TIME = "HOROVOD_CYCLE_TIME"
HOROVOD_CACHE_CAPACITY = "HOROVOD_CACHE_CAPACITY"
HOROVOD_HIERARCHICAL_ALLREDUCE = "HOROVOD_HIERARCHICAL_ALLREDUCE"
HOROVOD_HIERARCHICAL_ALLGATHER = "HOROVOD_HIERARCHICAL_ALLGATHER"
HOROVOD_TORUS_ALLREDUCE = "HOROVOD_TORUS_ALLREDUCE"
HOROVOD_TIMELINE = "HOROVOD_TIMELINE"
HOROVOD_TIMELINE_MARK_CYCLES = "HOROVOD_TIMELINE_MARK_CYCLES"
HOROVOD_STALL_CHECK_DISABLE = "HOROVOD_STALL_CHECK_DISABLE"
HOROVOD_STALL_CHECK_TIME_SECONDS = "HOROVOD_STALL_CHECK_TIME_SECONDS"
HOROVOD_STALL_SHUTDOWN_TIME_SECONDS = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
HOROVOD_MPI_THREADS_DISABLE = "HOROVOD_MPI_THREADS_DISABLE"
HOROVOD_NUM_NCCL_STREAMS = "HOROVOD_NUM_NCCL_STREAMS"
HOROVOD_THREAD_AFFINITY = "HOROVOD_THREAD_AFFINITY"
HOROVOD_GLOO_TIMEOUT_SECONDS = "HOROVOD_GLOO_TIMEOUT_SECONDS"
HOROVOD_LOG_LEVEL = "HOROVOD_LOG_LEVEL"
HOROVOD_LOG_HIDE_TIME = "HOROVOD_LOG_HIDE_TIME"

# Attributes of the result of parse_args().
_AS_THEY_ARE = {
    HOROVOD_CYCLE_TIME: "cycle_time_ms",
    HOROVOD_CACHE_CAPACITY: "cache_capacity",
    HOROVOD_HIERARCHICAL_ALLREDUCE: "hierarchical_allreduce",
    HOROVOD_HIERARCHICAL_ALLGATHER: "hierarchical_allgather",
    HOROVOD_TORUS_ALLREDUCE: "torus_allreduce",
    HOROVOD_TIMELINE: "timeline_filename",
    HOROVOD_TIMELINE_MARK_CYCLES: "timeline_mark_cycles",
    HOROVOD_STALL_CHECK_DISABLE: "no_stall_check",
    HOROVOD_STALL_CHECK_TIME_SECONDS: "stall_check_warning_time_seconds",
    HOROVOD_STALL_SHUTDOWN_TIME_SECONDS: "stall_check_shutdown_time_seconds",
    HOROVOD_MPI_THREADS_DISABLE: "mpi_threads_disable",
    HOROVOD_NUM_NCCL_STREAMS: "num_nccl_streams",
    HOROVOD_THREAD_AFFINITY: "thread_affinity",
    HOROVOD_GLOO_TIMEOUT_SECONDS: "gloo_timeout_seconds",
    HOROVOD_LOG_LEVEL: "log_level",
}


def set_env_from_args(env: dict[str, str], args: Any) -> dict[str, str]:
    """Adds the variables of the flags that were given; returns `env`."""
    for variable, attribute in _AS_THEY_ARE.items():
        _set(env, variable, getattr(args, attribute, None))
    fusion = getattr(args, "fusion_threshold_mb", None)
    _set(env, HOROVOD_FUSION_THRESHOLD, None if fusion is None else int(fusion) * 1024 * 1024)
    with_time = getattr(args, "log_with_timestamp", None)
    _set(env, HOROVOD_LOG_HIDE_TIME, None if with_time is None else not with_time)
    return env


def _set(env: dict[str, str], variable: str, value: Any) -> None:
    if value is not None:
        env[variable] = str(int(value)) if isinstance(value, bool) else str(value)
