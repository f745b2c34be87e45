"""torch's primitives for compressors with memory, on whatever device the gradients are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from hvdlite.adapter.compression.algebra import Arrays, likely
from hvdlite.torch.framework import stays_on_gpu

Array = torch.Tensor


class TorchAlgebra(Arrays):
    """See hvdlite.adapter.compression.algebra.Algebra."""

    def flat(self, tensor: Array) -> Array:
        return tensor.detach().reshape(-1).float()

    def like(self, array: Array, tensor: Array) -> Array:
        return array.reshape(tensor.shape).to(tensor.dtype)

    def zeros(self, shape: Sequence[int], like: Array) -> Array:
        # To read a number of a GPU would wait for the GPU.
        device = like.device if shape else "cpu"
        return torch.zeros(tuple(shape), dtype=torch.float32, device=device)

    def zeros_for_core(self, like: Array) -> Array:
        device = like.device if stays_on_gpu(like) else "cpu"
        return torch.zeros(like.shape, dtype=torch.float32, device=device)

    def for_core(self, array: Array) -> Array:
        return (array if stays_on_gpu(array) else array.cpu()).contiguous()

    def writable(self, residual: Array) -> Array:
        return residual

    def from_core(self, array: Array, like: Array) -> Array:
        return array.to(like.device)

    def is_lent(self, array: Array) -> bool:
        return array.is_cpu and array.is_contiguous()

    def room(self, count: int) -> Array:
        return torch.empty(count, dtype=torch.float32)

    def constant(self, values: Any, like: Array) -> Array:
        return torch.as_tensor(values, dtype=torch.float32).to(like.device, copy=True)

    def copied(self, array: Array) -> Any:
        return array.detach().to("cpu", copy=True)

    def reshaped(self, array: Array, shape: Sequence[int]) -> Array:
        return array.reshape(tuple(shape))

    def total(self, array: Array) -> Array:
        return array.sum()

    def root(self, array: Array) -> Array:
        return array.sqrt()

    def least(self, array: Array, bound: float) -> Array:
        return array.clamp(max=bound)

    def largest(self, array: Array, count: int) -> Array:
        magnitudes = array.abs()
        candidates = likely(
            magnitudes, count, lambda some, rank: some.topk(rank).values[-1],
            lambda found: found.nonzero().reshape(-1),
        )  # fmt: skip
        if candidates is None:
            return magnitudes.topk(count, sorted=False).indices.int()
        chosen = magnitudes[candidates].topk(count, sorted=False).indices
        return candidates[chosen].int()

    def orthogonal(self, a: Array) -> Array:
        left: Array = torch.linalg.qr(a).Q
        return left

    def count(self, array: Array) -> int:
        return array.numel()

    def chosen(self, condition: Array, yes: Array, no: Array) -> Array:
        return yes if bool(condition) else no

    def is_finite(self, number: Array) -> Any:
        return math.isfinite(number.item())


ALGEBRA = TorchAlgebra()


def algebra() -> TorchAlgebra:
    """By name, so that a compressor can be pickled."""
    return ALGEBRA
