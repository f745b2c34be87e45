"""Tensors of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import hvdlite.torch
from checks.api import HandleApi
from checks.here import BFLOAT16, DTYPES
from checks.torch_run import TorchRun


class TorchApi(HandleApi):
    hvd = hvdlite.torch
    Run = TorchRun
    dtypes = tuple(name for name in DTYPES if hasattr(torch, name))

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        copy = np.array(array, order="C")
        if array.dtype == BFLOAT16:
            return torch.from_numpy(copy.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(copy)

    def array(self, tensor: torch.Tensor) -> np.ndarray:
        assert isinstance(tensor, torch.Tensor), f"got a {type(tensor).__name__}"
        tensor = tensor.detach()
        return (
            tensor.view(torch.int16).numpy().view(BFLOAT16)
            if tensor.dtype == torch.bfloat16
            else tensor.numpy()
        )

    def splits(self, rows: list[int]) -> list[Any]:
        return [rows, torch.tensor(rows, dtype=torch.int32)]

    no_tensors = (None, 1.0, [1.0], np.ones(3), "text")
    tensor_word = "torch.Tensor"

    def wrong_dtypes(self) -> list[Any]:
        newer = [torch.ones(2).to(torch.float8_e5m2)] if hasattr(torch, "float8_e5m2") else []
        quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
        return [torch.ones(2, dtype=torch.complex64), quantized, *newer]

    def wrong_splits(self, size: int) -> list[Any]:
        return [
            [0.5] * size,
            torch.tensor([2] * size, dtype=torch.int64),
            torch.tensor([[2] * size], dtype=torch.int32),
        ]

    def pull(self, function: Callable[[Any], Any], x: torch.Tensor, dy: torch.Tensor) -> Any:
        leaf = x if x.requires_grad else x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(function(leaf), leaf, dy, create_graph=True)
        assert gradient.dtype == x.dtype
        return gradient


API = TorchApi()
tensor, array = API.tensor, API.array
