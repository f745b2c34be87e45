"""horovod.runner.elastic.discovery: objects that say which hosts there are. Base classes for
`settings.discovery` of horovod.ray.ElasticRayExecutor."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping

from hvdlite.launch.elastic.discovery import parse

__all__ = ["FixedHosts", "HostDiscovery", "HostDiscoveryScript"]


class HostDiscovery(ABC):
    """Every class with this method counts as a subclass."""

    @abstractmethod
    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Returns the number of slots by host."""

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return cls is HostDiscovery and hasattr(other, "find_available_hosts_and_slots")


class FixedHosts(HostDiscovery):
    """The hosts that it was told last."""

    def __init__(self, available_hosts: Mapping[str, int]) -> None:
        self.set(available_hosts)

    def set(self, available_hosts: Mapping[str, int]) -> None:
        self._hosts = dict(available_hosts)

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        return dict(self._hosts)


class HostDiscoveryScript(HostDiscovery):
    """What a script prints: `host` or `host:slots` per line. `slots`: for a host without them."""

    def __init__(self, discovery_script: str, slots: int | None = None) -> None:
        self._script, self._slots = discovery_script, 1 if slots is None else slots

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Runs the script. Raises RuntimeError if it fails, and ValueError if it prints something
        else."""
        done = subprocess.run(
            self._script, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        if done.returncode:
            raise RuntimeError(
                f"the host discovery script {self._script} has ended with status {done.returncode}."
            )
        if not done.stdout.strip():
            return {}
        return {host.name: host.slots for host in parse(done.stdout, self._slots)}
