"""What the checks of hvdlite.torch share: numpy's data as tensors and back."""

from __future__ import annotations

import numpy as np
import torch

from checks import needs
from checks.here import BFLOAT16, DTYPES

TORCH_DTYPES = DTYPES


def tensor(array: np.ndarray) -> torch.Tensor:
    """A copy."""
    needs(hasattr(torch, str(array.dtype)), f"a torch that has {array.dtype}")
    if array.dtype == BFLOAT16:
        return torch.from_numpy(np.array(array, order="C").view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array, order="C"))


def array(value: torch.Tensor) -> np.ndarray:
    assert isinstance(value, torch.Tensor), f"got a {type(value).__name__}"
    value = value.detach()
    return value.view(torch.int16).numpy().view(BFLOAT16) if value.dtype == torch.bfloat16 else value.numpy()
