"""torch's arithmetic on many gradients at a time: see hvdlite.adapter.hooks.primitives.Batched."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hvdlite.adapter.compression.methods import Momentum

Tensors = Sequence[torch.Tensor]


def add_momentum(gradients: Tensors, velocities: Tensors, momentum: Momentum) -> Tensors:
    flat = [each if each.dim() == 1 else each.reshape(-1) for each in gradients]
    new = torch._foreach_mul(list(velocities), momentum.factor)
    torch._foreach_add_(new, flat, alpha=momentum.factor if momentum.nesterov else 1.0)
    steps = torch._foreach_add(flat, new) if momentum.nesterov else new
    for gradient, step in zip(gradients, steps, strict=True):
        gradient.copy_(step if gradient.dim() == 1 else step.view_as(gradient))
    return new


def are_finite(gradients: Tensors) -> bool:
    # Large ones are not copied.
    parts = [(each.sum() if each.numel() > 65536 else each).reshape(-1) for each in gradients]
    total = torch.cat([part.to(parts[0].device) for part in parts]).sum()
    # A sum takes a third of the time of all comparisons, and is finite unless it overflows.
    return bool(total.isfinite()) or all(bool(each.isfinite().all()) for each in gradients)
