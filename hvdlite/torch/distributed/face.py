"""What torch asks a process group about, besides collectives."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

import torch

NAME = "hvdlite"

_FIXED = (
    "the members of this process group cannot change: only the default group can be reconfigured, "
    "if it is made by init_process_group(..., enable_reconfigure=True)"
)


class Face:
    """Torch's questions. Its C++ base class answers them from its C++ backends, and has none
    here."""

    # FSDP2 and DeviceMesh ask a group's backend, which is the group itself.
    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False
    supports_reconfigure = False

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self._group_store = store
        self._place = (rank, size)
        self._patience = timeout
        self._called = ""
        self._described = ""

    def name(self) -> str:
        return NAME

    getBackendName = name  # noqa: N815

    def rank(self) -> int:
        return self._place[0]

    def size(self) -> int:
        return self._place[1]

    getRank = rank  # noqa: N815
    getSize = size  # noqa: N815

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._called = name

    def getGroupName(self) -> str:  # noqa: N802
        return self._called

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        self._described = description

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._described

    # Before torch 2.5 these ask C++ backends, not the methods above.
    _set_group_name = setGroupName
    _set_group_desc = setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    def get_group_store(self) -> Any:
        return self._group_store

    def set_timeout(self, timeout: timedelta) -> None:
        self._patience = timeout

    @property
    def _device_types(self) -> list[torch.device]:
        if "flight_recorder" in sys._getframe(1).f_code.co_name:
            return []  # so torch 2.15 knows that its recorder in C++ cannot see this group
        gpus = [torch.device("cuda")] if torch.cuda.is_available() else []
        return [torch.device("cpu"), *gpus]

    def _get_backend(self, device: torch.device) -> Any:
        return self

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        return False

    def get_reconfigure_handle(self) -> str:
        raise RuntimeError(_FIXED)

    def reconfigure(self, options: Any) -> Any:
        raise RuntimeError(_FIXED)

    def _set_sequence_number_for_group(self) -> None:
        """Operations have names, which count them."""

    def __repr__(self) -> str:
        rank, size = self._place
        return f"<hvdlite's process group {self._called!r}, rank {rank} of {size}>"
