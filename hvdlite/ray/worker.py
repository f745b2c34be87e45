"""The actor of a rank."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray._private import ray_constants

from hvdlite.job import basics
from hvdlite.ray import identity, ray_logger
from hvdlite.ray.rank_order import ActorIdentity


class BaseHorovodWorker:
    """One rank. `executable` is the object that start_executable() has made."""

    executable: Any = None

    def __init__(self, world_rank: int = 0, world_size: int = 1) -> None:
        self._rank, self._size = world_rank, world_size

    def __repr__(self) -> str:
        """Ray prints it before each line of this actor's output."""
        return f"rank {self._rank}"

    def node_id(self) -> str:
        return str(ray.get_runtime_context().get_node_id())

    def hostname(self) -> str:
        return socket.gethostname()

    def get_gpu_ids(self) -> list[str]:
        """Returns the GPUs that Ray has given to this actor."""
        return list(identity.gpus())

    def update_env_vars(self, env_vars: Mapping[str, Any]) -> None:
        os.environ.update({name: str(value) for name, value in env_vars.items()})

    def env_vars(self) -> dict[str, str]:
        """Returns the environment. The job's secret is not in it."""
        return dict(os.environ)

    def start_executable(
        self,
        executable_cls: Callable[..., Any] | None = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if executable_cls is not None:
            args, kwargs = executable_args or (), executable_kwargs or {}
            self.executable = self.execute(lambda _: executable_cls(*args, **kwargs))

    def execute(self, func: Callable[[Any], Any]) -> Any:
        """Returns `func(executable)`. If it raises, the other ranks are told at once."""
        try:
            return func(self.executable)
        except BaseException as error:
            basics.abort_for(error, error.__traceback__)
            raise

    def set_queue(self, queue: Any) -> None:
        """Sets where ray_logger.log() sends values."""
        ray_logger.configure(queue)

    # What RayExecutor calls besides.

    def find(self) -> ActorIdentity:
        return identity.own()

    def join_job(self, rank: int, environment: Mapping[str, str], key: bytes) -> None:
        if rank != self._rank:
            self._rank = rank
            _name_output(self)
        identity.join(environment, key)

    def leave(self) -> None:
        ray_logger.configure(None)
        identity.leave()


def _name_output(actor: BaseHorovodWorker) -> None:
    """Changes what Ray prints before each line: by the line with which it begins an actor's output
    itself."""
    sign = getattr(ray_constants, "LOG_PREFIX_ACTOR_NAME", None)
    if sign is not None:
        for stream in (sys.stdout, sys.stderr):
            print(f"{sign}{actor!r}", file=stream, flush=True)
