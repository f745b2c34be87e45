"""Parameters that each rank trains by itself for many steps: they are no replicas meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

_own: Any = WeakTensorKeyDictionary()


def declare_own(parameters: Iterable[torch.Tensor]) -> None:
    """Elastic states do not expect these to be the same on all ranks."""
    _own.update((parameter, True) for parameter in parameters)


def is_own(parameter: torch.Tensor) -> bool:
    return parameter in _own
