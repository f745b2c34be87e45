"""hvdlite for Ray Train: its workers are the ranks of a job.

DataParallelTrainer(train, backend_config=HvdliteConfig(), scaling_config=...).fit()
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import ray

try:
    from ray.train.backend import Backend, BackendConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
except ImportError as error:
    raise ImportError(
        f'hvdlite.ray.train needs Ray Train: pip install ".[ray]" in a clone of hvdlite ({error})'
    ) from error

from hvdlite.exceptions import PeerLostError, ShutDownError
from hvdlite.job import basics
from hvdlite.ray import identity
from hvdlite.ray.coordinator import Coordinator
from hvdlite.ray.rank_order import ActorIdentity
from hvdlite.ray.settings import MiniSettings

__all__ = ["DataParallelTrainer", "HvdliteConfig", "cause"]


class _TellingOthers:
    """Around the function of a worker. It runs in a thread, whose exceptions end no process."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            basics.abort_for(error, trace)


@dataclass
class HvdliteConfig(BackendConfig):  # type: ignore[misc]
    """`timeout_s`: for the workers to meet."""

    timeout_s: float = 30

    @property
    def backend_cls(self) -> type[_HvdliteBackend]:
        return _HvdliteBackend

    @property
    def train_func_context(self) -> type[_TellingOthers]:
        return _TellingOthers

    @property
    def framework(self) -> None:
        return None

    def to_dict(self) -> dict[str, Any]:
        return {"timeout_s": self.timeout_s}


class _HvdliteBackend(Backend):  # type: ignore[misc]
    """The store is in the process of Ray Train's controller, which calls these methods."""

    share_cuda_visible_devices = True
    has_replica_groups = False
    _coordinator: Coordinator | None = None

    def on_start(self, worker_group: Any, backend_config: HvdliteConfig) -> None:
        """Returns when all workers have joined the job. May be called again, with other workers."""
        self._close()
        coordinator = Coordinator(MiniSettings(backend_config.timeout_s))
        self._coordinator = coordinator
        for rank, found in enumerate(worker_group.execute(_find)):
            coordinator.found(rank, found)
        shared = coordinator.open()
        store = coordinator.store
        assert store is not None
        ray.get(
            [
                worker_group.execute_single_async(rank, _join, {**own, **shared}, store.key)
                for rank, own in coordinator.finalize_registration().items()
            ]
        )

    def on_shutdown(self, worker_group: Any, backend_config: HvdliteConfig) -> None:
        try:
            worker_group.execute(identity.leave)
        finally:
            self._close()

    def _close(self) -> None:
        if self._coordinator is not None:
            self._coordinator.close()
        self._coordinator = None


def _find() -> ActorIdentity:
    """Ray Train itself makes the GPUs of a node visible to its workers."""
    return replace(identity.own(), gpus=())


def _join(environment: Mapping[str, str], key: bytes) -> None:
    identity.join(environment, key)
    basics.init()


def cause(error: BaseException) -> BaseException:
    """Returns the failure of a worker that has ended a run, by the exception of `fit()`.

    When one worker fails, the others lose it and fail as well. Ray reports all of them.
    """
    failures = list(getattr(error, "worker_failures", {}).values())
    own = [each for each in failures if not isinstance(each, (PeerLostError, ShutDownError))]
    found: BaseException = next(iter([*own, *failures, error]))
    return found
