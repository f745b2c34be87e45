"""ElasticRayExecutor: a job on Ray that goes on while actors die, and nodes come and go."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray

from hvdlite.ray import elastic_job, nodes
from hvdlite.ray.bundles import need_of
from hvdlite.ray.ray_logger import Callback
from hvdlite.ray.settings import ElasticSettings

__all__ = ["ElasticRayExecutor", "RayHostDiscovery", "TestDiscovery"]


class RayHostDiscovery:
    """The living nodes of the cluster, with a slot for each `cpus_per_slot` CPUs and, with
    `use_gpu`, `gpus_per_slot` GPUs."""

    def __init__(
        self, use_gpu: bool = False, cpus_per_slot: int = 1, gpus_per_slot: int | None = None
    ) -> None:
        self._need = need_of(cpus_per_slot, use_gpu, gpus_per_slot)

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Returns slots by the nodes' addresses, or their ids where nodes share an address."""
        return nodes.slots(ray.nodes(), self._need)


class TestDiscovery(RayHostDiscovery):
    """For tests: takes a node away or gives one back every `change_frequency_s` seconds, so that
    between `min_hosts` and `max_hosts` are there."""

    __test__ = False  # pytest looks for tests by this name

    def __init__(
        self,
        min_hosts: int,
        max_hosts: int,
        change_frequency_s: float,
        use_gpu: bool = False,
        cpus_per_slot: int = 1,
        gpus_per_slot: int | None = None,
        verbose: bool = True,
        _graceful: bool = True,
    ) -> None:
        super().__init__(use_gpu, cpus_per_slot, gpus_per_slot)
        self._range = (min_hosts, max_hosts)
        self._period = change_frequency_s
        self._due = time.monotonic() + change_frequency_s
        self._shown = min_hosts

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._period
            wanted = self._shown + random.choice((-1, 1))
            self._shown = min(max(wanted, self._range[0]), self._range[1])
        found = super().find_available_hosts_and_slots()
        return dict(sorted(found.items())[: self._shown])


class ElasticRayExecutor:
    """Runs a function on at least `min_num_proc` ranks, and on more where nodes have room.

    The function calls `hvd.init()` and `hvd.elastic.run`. A rank that dies is replaced, and nodes
    that come get ranks.
    """

    @classmethod
    def create_settings(
        cls,
        min_num_proc: int = 1,
        max_num_proc: int | None = None,
        reset_limit: int | None = None,
        elastic_timeout: int = 600,
        timeout_s: int = 30,
        ssh_identity_file: str | None = None,
        nics: Any = None,
        min_np: int | None = None,
        max_np: int | None = None,
        **kwargs: Any,
    ) -> ElasticSettings:
        """Returns settings. `reset_limit`: how often the ranks may change. `elastic_timeout`: how
        long the job waits for `min_num_proc` ranks. `timeout_s`: for the ranks to meet. `min_np`
        and `max_np` are deprecated names."""
        if min_np is not None or max_np is not None:
            warnings.warn(
                "min_np and max_np are deprecated: use min_num_proc and max_num_proc.",
                DeprecationWarning,
                stacklevel=2,
            )
        settings = ElasticSettings(
            min_num_proc if min_np is None else min_np,
            max_num_proc if max_np is None else max_np,
            reset_limit,
            elastic_timeout=elastic_timeout,
            timeout_s=timeout_s,
            ssh_identity_file=ssh_identity_file,
            nics=nics,
        )
        for name, value in kwargs.items():
            setattr(settings, name, value)
        return settings

    def __init__(
        self,
        settings: ElasticSettings,
        use_gpu: bool = False,
        cpus_per_slot: int = 1,
        gpus_per_slot: int | None = None,
        env_vars: Mapping[str, Any] | None = None,
        override_discovery: bool = True,
    ) -> None:
        """`override_discovery`: ask Ray for nodes, and not `settings.discovery`."""
        self.settings = settings
        self._need = need_of(cpus_per_slot, use_gpu, gpus_per_slot)
        self._variables = {name: str(value) for name, value in (env_vars or {}).items()}
        if override_discovery or settings.discovery is None:
            settings.discovery = RayHostDiscovery(use_gpu, cpus_per_slot, gpus_per_slot)

    def start(self) -> None:
        """Connects with Ray. The ranks start with run()."""
        if not ray.is_initialized():
            ray.init()

    def run(
        self, worker_fn: Callable[[], Any], callbacks: Sequence[Callback] | None = None
    ) -> list[Any]:
        """Calls `worker_fn()` on all ranks. Returns the results of the last ranks, in their order.

        Each callback gets lists of the values that ranks pass to `ray_logger.log()`.
        """
        self.start()
        return elastic_job.run(
            worker_fn, self.settings, self._need, self._variables, callbacks or ()
        )
