"""What Lightning asks about this rank's place: a ClusterEnvironment, except for that base."""

from __future__ import annotations

import os

from hvdlite.job import basics


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
