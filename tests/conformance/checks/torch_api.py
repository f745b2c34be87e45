"""Tensors of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import hvdlite.torch
from checks.api import HandleApi
from checks.here import BFLOAT16, DTYPES


class TorchApi(HandleApi):
    hvd = hvdlite.torch
    dtypes = tuple(name for name in DTYPES if hasattr(torch, name))

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        copy = np.array(array, order="C")
        if array.dtype == BFLOAT16:
            return torch.from_numpy(copy.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(copy)

    def array(self, tensor: torch.Tensor) -> np.ndarray:
        assert isinstance(tensor, torch.Tensor), f"got a {type(tensor).__name__}"
        tensor = tensor.detach()
        return tensor.view(torch.int16).numpy().view(BFLOAT16) if tensor.dtype == torch.bfloat16 else tensor.numpy()

    def splits(self, rows: list[int]) -> list[Any]:
        return [rows, torch.tensor(rows, dtype=torch.int32)]

    def pull(self, function: Callable[[Any], Any], x: torch.Tensor, dy: torch.Tensor) -> Any:
        leaf = x if x.requires_grad else x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(function(leaf), leaf, dy, create_graph=True)
        assert gradient.dtype == x.dtype
        return gradient


API = TorchApi()
tensor, array = API.tensor, API.array
