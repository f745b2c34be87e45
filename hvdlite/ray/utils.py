"""What Ray's HorovodTrainer asks Horovod for: the network interfaces of the ranks. Ranks find them
themselves, if the user has chosen none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

__all__ = ["detect_nics", "nics_to_env_var"]


def detect_nics(
    settings: Any, all_host_names: Sequence[str], node_workers: Sequence[Any]
) -> list[str]:
    """Returns the interfaces that the user has chosen; none: any."""
    del all_host_names, node_workers
    return sorted(getattr(settings, "nics", None) or ())


def nics_to_env_var(nics: Collection[str]) -> dict[str, str]:
    """Returns the variable that makes ranks use these interfaces alone."""
    return {"HVDLITE_NETWORK_INTERFACES": ",".join(nics)} if nics else {}
