"""RayExecutor: a function on all ranks of a job, which are actors of Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hvdlite.ray.bundles import need_of
from hvdlite.ray.coordinator import Coordinator as Coordinator
from hvdlite.ray.elastic_v2 import ElasticAdapter, ElasticParams
from hvdlite.ray.ray_logger import Callback
from hvdlite.ray.settings import MiniSettings
from hvdlite.ray.static import StaticAdapter as StaticAdapter

__all__ = ["Coordinator", "MiniSettings", "RayExecutor", "StaticAdapter"]


class RayExecutor:
    """Starts a job on Ray and runs functions on all of its ranks.

    Either `num_workers` ranks lie where there is room, or `num_hosts` nodes have
    `num_workers_per_host` ranks each. Each rank has `cpus_per_worker` CPUs and, with `use_gpu`,
    `gpus_per_worker` GPUs. Inside a placement group, the ranks run in that group unless
    `use_current_placement_group` is false.

    With `min_workers` the job is elastic: it goes on while that many ranks are left, and uses up to
    `max_workers` where nodes have room. `reset_limit`, `cooldown_range`, `elastic_timeout` and
    `override_discovery` are those of ElasticRayExecutor.

    The function calls `hvd.init()` itself.
    """

    @classmethod
    def create_settings(
        cls,
        timeout_s: float = 30,
        ssh_identity_file: str | None = None,
        ssh_str: str | None = None,
        placement_group_timeout_s: float = 100,
        nics: Any = None,
    ) -> MiniSettings:
        """Returns settings. `timeout_s`: for the ranks to meet. `placement_group_timeout_s`: for
        Ray to place and start them. The others are accepted for Horovod's sake."""
        return MiniSettings(timeout_s, placement_group_timeout_s, ssh_identity_file, ssh_str, nics)

    def __init__(
        self,
        settings: MiniSettings,
        num_workers: int | None = None,
        num_hosts: int | None = None,
        num_workers_per_host: int = 1,
        cpus_per_worker: int = 1,
        use_gpu: bool = False,
        gpus_per_worker: int | None = None,
        use_current_placement_group: bool = True,
        min_workers: int | None = None,
        max_workers: int | None = None,
        reset_limit: int | None = None,
        cooldown_range: list[int] | None = None,
        elastic_timeout: int = 600,
        override_discovery: bool = True,
    ) -> None:
        if max_workers and not (min_workers and min_workers > 0):
            raise ValueError("max_workers needs min_workers, of at least 1.")
        if min_workers is not None and num_workers is not None:
            raise ValueError(
                "min_workers and num_workers exclude one another: a job is elastic or not."
            )
        need = need_of(cpus_per_worker, use_gpu, gpus_per_worker)
        self.settings = settings
        self.num_workers, self.num_hosts = num_workers, num_hosts
        self.num_workers_per_host = num_workers_per_host
        self.cpus_per_worker, self.use_gpu = cpus_per_worker, use_gpu
        self.gpus_per_worker = need.gpus
        self.min_workers, self.max_workers = min_workers, max_workers
        self.adapter: StaticAdapter | ElasticAdapter
        if min_workers is None:
            self.adapter = StaticAdapter(
                settings, num_workers, num_hosts, num_workers_per_host, need,
                use_current_placement_group,
            )  # fmt: skip
        else:
            params = ElasticParams(
                min_workers, max_workers, reset_limit, cooldown_range, elastic_timeout,
                override_discovery, cpus_per_worker, use_gpu, gpus_per_worker,
            )  # fmt: skip
            self.adapter = ElasticAdapter(settings, params)

    def start(
        self,
        executable_cls: type | None = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
        extra_env_vars: Mapping[str, Any] | None = None,
    ) -> None:
        """Starts the ranks. Each of them makes an object `executable_cls(*executable_args,
        **executable_kwargs)`, with `extra_env_vars` in its environment."""
        self.adapter.start(executable_cls, executable_args, executable_kwargs, extra_env_vars)

    def execute(
        self, fn: Callable[[Any], Any], callbacks: Sequence[Callback] | None = None
    ) -> list[Any]:
        """Calls `fn(executable)` on all ranks. Returns the results in the order of ranks.

        Each callback gets lists of the values that ranks pass to `ray_logger.log()`.
        The exception of a rank is raised here, with that rank's traceback.
        """
        return self.adapter.execute(fn, callbacks)

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        callbacks: Sequence[Callback] | None = None,
    ) -> list[Any]:
        """Calls `fn(*args, **kwargs)` on all ranks. Returns the results in the order of ranks."""
        return self.adapter.execute(_without_executable(fn, args, kwargs), callbacks)

    def run_remote(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> list[Any]:
        """Like run(), but returns at once, with Ray's references to the results."""
        return self.adapter.execute_remote(_without_executable(fn, args, kwargs))

    def execute_single(self, fn: Callable[[Any], Any]) -> Any:
        """Calls `fn(executable)` on rank 0 alone, and returns its result."""
        return self.adapter.execute_single(fn)

    def shutdown(self) -> None:
        """Ends the ranks, and gives their resources back."""
        self.adapter.shutdown()


def _without_executable(
    fn: Callable[..., Any], args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
) -> Callable[[Any], Any]:
    return lambda _: fn(*args or (), **kwargs or {})
