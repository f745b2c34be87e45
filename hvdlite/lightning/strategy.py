"""What Lightning asks a strategy, and about this rank's place: a DDPStrategy and a
ClusterEnvironment, except for these bases.

Lightning's DDPStrategy does the training. It believes in `devices` x `num_nodes` processes that it
may have to start itself; here all numbers come from hvdlite's job.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from hvdlite.job import basics
from hvdlite.torch import distributed

NAME = "hvdlite"


class Strategy:
    """DistributedDataParallel over hvdlite, in the ranks that a launcher has started.

    Takes the arguments of Lightning's DDPStrategy. `process_group_backend="gloo"` makes
    torch.distributed's default group with another backend.

    `elastic=True`: fit() goes on where it is when ranks die, leave and come, in a job that
    `hvdliterun --min-np` has started.
    """

    strategy_name = NAME
    environment_of: Any  # the class of Lightning's package
    parallel_devices: Any
    cluster_environment: Any
    _launcher: Any
    _ddp_comm_state: Any
    _ddp_comm_hook: Any
    _timeout: Any
    model: Any
    lightning_module: Any

    def __init__(
        self, *, process_group_backend: str = NAME, elastic: bool = False, **options: Any
    ) -> None:
        if elastic and process_group_backend != NAME:
            raise ValueError(
                "HvdliteStrategy(elastic=True) needs hvdlite's own process group, and "
                f"process_group_backend={process_group_backend!r} is another one"
            )
        self._elastic = elastic
        self._training: Any = None
        parent: Any = super()
        parent.__init__(
            cluster_environment=self.environment_of(),
            process_group_backend=process_group_backend,
            **options,
        )

    @property
    def root_device(self) -> torch.device:
        return device_of(self.parallel_devices, self.cluster_environment.local_rank())

    @property
    def num_processes(self) -> int:
        return int(self.cluster_environment.world_size())

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        place = self.cluster_environment
        return {"num_replicas": place.world_size(), "rank": place.global_rank()}

    def _configure_launcher(self) -> None:
        """The ranks run already."""
        self._launcher = None

    def setup_distributed(self) -> None:
        parent: Any = super()
        backend = parent._get_process_group_backend()
        distributed.init(backend, **({"timeout": self._timeout} if self._timeout else {}))
        parent.setup_distributed()

    def on_train_start(self) -> None:
        parent: Any = super()
        parent.on_train_start()
        if self._elastic:
            from hvdlite.lightning.in_place import Training

            self._training = Training(self.lightning_module.trainer, self.model)

    def on_train_end(self) -> None:
        training, self._training = self._training, None
        if training is not None:
            training.end()
        parent: Any = super()
        parent.on_train_end()

    def _register_ddp_hooks(self) -> None:
        """Lightning registers hooks for models on GPUs only."""
        parent: Any = super()
        if self.root_device.type == "cpu" and self._ddp_comm_hook is not None:
            self.model.register_comm_hook(self._ddp_comm_state, self._ddp_comm_hook)
        parent._register_ddp_hooks()


def device_of(devices: Sequence[torch.device] | None, local_rank: int) -> torch.device:
    """The device of a rank, of those that Lightning has found: the only one, or the one of this
    rank's number on its host."""
    devices = devices or []
    if len(devices) == 1:
        return devices[0]
    if local_rank < len(devices):
        return devices[local_rank]
    raise ValueError(
        f"local rank {local_rank} has no device: Trainer() has {len(devices)} on this host. Start "
        f"at most {len(devices)} ranks on it, or leave out devices=."
    )


class Environment:
    """This rank's place in hvdlite's job. Calls `hvd.init()`."""

    def __init__(self) -> None:
        super().__init__()
        basics.init()

    @property
    def creates_processes_externally(self) -> bool:
        return True

    @property
    def main_address(self) -> str:
        return os.environ.get("MASTER_ADDR", "127.0.0.1")

    @property
    def main_port(self) -> int:
        return int(os.environ.get("MASTER_PORT", "0"))

    @staticmethod
    def detect() -> bool:
        return "HVDLITE_RANK" in os.environ or "HVDLITE_MEMBER" in os.environ

    def world_size(self) -> int:
        return basics.size()

    def set_world_size(self, size: int) -> None:
        """Lightning computes it of devices and nodes. The job knows better."""

    def global_rank(self) -> int:
        return basics.rank()

    def set_global_rank(self, rank: int) -> None:
        """As set_world_size()."""

    def local_rank(self) -> int:
        return basics.local_rank()

    def node_rank(self) -> int:
        return basics.cross_rank()
