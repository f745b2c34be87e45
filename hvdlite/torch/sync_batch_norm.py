"""Batch normalization over the batches of all ranks: the result of one process on the whole
batch."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from hvdlite.base.operations import ALLGATHER, ALLREDUCE
from hvdlite.base.ops import Sum
from hvdlite.core.process_sets import global_process_set
from hvdlite.job.basics import size
from hvdlite.torch.ops import OPS

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm*d, for inputs of any number of dimensions from two on, on the CPU as
    well.

    While training, mean and variance are those of all ranks' batches, whose sizes may differ.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
                 affine: bool = True, track_running_stats: bool = True) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not self.training or size() == 1:
            return super().forward(input)
        self._check_input_dim(input)
        output, mean, variance, count = _Normalize.apply(input, self.weight, self.bias, self.eps)  # type: ignore[no-untyped-call]
        if self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            share = (
                1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
            )
            with torch.no_grad():
                unbiased = variance * (count / max(count - 1.0, 1.0))
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)  # type: ignore[union-attr]
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)  # type: ignore[union-attr]
        return output


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, input: torch.Tensor, weight: Any, bias: Any, eps: float
    ) -> tuple[Any, ...]:
        wide = input if input.dtype == torch.float64 else input.float()
        channels = input.shape[1]
        own = input.numel() // max(channels, 1)
        if own:
            variance, mean = torch.var_mean(wide, _all_but_channels(input), correction=0)
        else:
            variance = mean = wide.new_zeros(channels)
        mine = torch.cat([wide.new_tensor([own]), mean, variance])[None]
        # All ranks' values, rather than sums: variances of small spreads around large means stay
        # exact.
        everyones = OPS.run_one(
            mine, ALLGATHER, f"sync_batch_norm.{channels}", global_process_set
        ).double()
        counts, means, variances = (
            everyones[:, :1],
            everyones[:, 1 : channels + 1],
            everyones[:, channels + 1 :],
        )
        total = counts.sum()
        mean = (counts * means).sum(0) / total
        variance = (counts * (variances + (means - mean) ** 2)).sum(0) / total
        mean, variance, count = mean.to(wide.dtype), variance.to(wide.dtype), float(total)
        ctx.save_for_backward(input, weight, mean, torch.rsqrt(variance + eps))
        ctx.count = count
        w, b = (None if p is None else p.to(wide.dtype) for p in (weight, bias))
        output = torch.nn.functional.batch_norm(
            wide, mean, variance, w, b, training=False, eps=eps
        ).to(input.dtype)
        ctx.mark_non_differentiable(mean, variance)
        return output, mean, variance, count

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> tuple[Any, ...]:
        input, weight, mean, scale = ctx.saved_tensors
        channels = input.shape[1]
        shape = [1, channels] + [1] * (input.dim() - 2)
        wide = gradient.to(mean.dtype)
        centred = (input.to(mean.dtype) - mean.view(shape)) * scale.view(shape)
        over = _all_but_channels(input)
        sums = torch.cat([wide.sum(over), (wide * centred).sum(over)])
        of_bias, of_weight = sums[:channels], sums[channels:]
        of_input = None
        if ctx.needs_input_grad[0]:
            # This rank's inputs moved the statistics of all.
            name = f"sync_batch_norm.{channels}.backward"
            means = OPS.run_one(sums, ALLREDUCE, name, global_process_set, Sum) / ctx.count
            by_mean, by_spread = (m.view(shape) for m in (means[:channels], means[channels:]))
            factor = scale if weight is None else scale * weight.to(scale.dtype)
            of_input = ((wide - by_mean - centred * by_spread) * factor.view(shape)).to(input.dtype)
        if weight is None:
            return of_input, None, None, None
        return of_input, of_weight.to(weight.dtype), of_bias.to(weight.dtype), None


def _all_but_channels(input: torch.Tensor) -> list[int]:
    return [d for d in range(input.dim()) if d != 1]
