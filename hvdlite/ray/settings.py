"""What a user chooses for a job on Ray."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class MiniSettings:
    """`timeout_s`: for the ranks to meet. `placement_group_timeout_s`: for Ray to place and start
    them. The other fields are accepted for Horovod's sake."""

    timeout_s: float = 30
    placement_group_timeout_s: float = 100
    ssh_identity_file: str | None = None
    ssh_str: str | None = None
    nics: Any = None
    verbose: int = 0

    @property
    def start_timeout(self) -> float:
        return self.timeout_s


@dataclass
class ElasticSettings:
    """`discovery`: an object whose find_available_hosts_and_slots() returns slots by node, if the
    executor was told not to ask Ray. `timeout_s`: for the ranks to meet."""

    min_num_proc: int = 1
    max_num_proc: int | None = None
    reset_limit: int | None = None
    cooldown_range: tuple[float, float] | None = None
    elastic_timeout: float = 600
    timeout_s: float = 30
    ssh_identity_file: str | None = None
    nics: Any = None
    discovery: Any = None
