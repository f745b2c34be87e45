"""RayExecutor(min_workers=...): the elastic job behind RayExecutor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hvdlite.ray.elastic import ElasticRayExecutor, RayHostDiscovery, TestDiscovery
from hvdlite.ray.ray_logger import Callback
from hvdlite.ray.settings import ElasticSettings, MiniSettings

__all__ = ["ElasticAdapter", "ElasticParams", "RayHostDiscovery", "TestDiscovery"]


@dataclass
class ElasticParams:
    """What an elastic job needs besides its settings."""

    min_workers: int
    max_workers: int | None = None
    reset_limit: int | None = None
    cooldown_range: Sequence[float] | None = None
    elastic_timeout: float = 600
    override_discovery: bool = True
    cpus_per_worker: int = 1
    use_gpu: bool = False
    gpus_per_worker: int | None = None


class ElasticAdapter:
    """The ranks start with each execute(), and end with it."""

    def __init__(self, settings: MiniSettings, params: ElasticParams) -> None:
        self.settings, self.params = settings, params
        self._start: tuple[Any, ...] | None = None

    def start(
        self,
        executable_cls: type | None = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
        extra_env_vars: Mapping[str, Any] | None = None,
    ) -> None:
        self._start = (
            executable_cls, tuple(executable_args or ()), dict(executable_kwargs or {}),
            dict(extra_env_vars or {}),
        )  # fmt: skip

    def execute(
        self, fn: Callable[[Any], Any], callbacks: Sequence[Callback] | None = None
    ) -> list[Any]:
        if self._start is None:
            raise RuntimeError("no rank runs: call start() first.")
        executable_cls, args, kwargs, variables = self._start
        params = self.params
        cooldown = params.cooldown_range
        low_high = (cooldown[0], cooldown[1]) if cooldown else None
        executor = ElasticRayExecutor(
            ElasticSettings(
                params.min_workers, params.max_workers, params.reset_limit, low_high,
                params.elastic_timeout, self.settings.timeout_s,
                discovery=getattr(self.settings, "discovery", None),
            ),
            params.use_gpu, params.cpus_per_worker, params.gpus_per_worker, variables,
            params.override_discovery,
        )  # fmt: skip

        def on_each_rank() -> Any:
            return fn(executable_cls(*args, **kwargs) if executable_cls is not None else None)

        return executor.run(on_each_rank, callbacks)

    def execute_remote(self, fn: Callable[[Any], Any]) -> list[Any]:
        raise NotImplementedError("run_remote() is not possible for an elastic job: use run().")

    def execute_single(self, fn: Callable[[Any], Any]) -> Any:
        raise NotImplementedError("execute_single() is not possible for an elastic job: use run().")

    def shutdown(self) -> None:
        self._start = None
