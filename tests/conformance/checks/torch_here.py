"""What the checks of hvdlite.torch share: numpy's data as tensors and back."""

from __future__ import annotations

import numpy as np
import torch

from checks.here import BFLOAT16, DTYPES

TORCH_DTYPES = tuple(name for name in DTYPES if hasattr(torch, name))


def tensor(array: np.ndarray) -> torch.Tensor:
    """A copy."""
    if array.dtype == BFLOAT16:
        return torch.from_numpy(np.array(array, order="C").view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array, order="C"))


def array(value: torch.Tensor) -> np.ndarray:
    assert isinstance(value, torch.Tensor), f"got a {type(value).__name__}"
    value = value.detach()
    return value.view(torch.int16).numpy().view(BFLOAT16) if value.dtype == torch.bfloat16 else value.numpy()
