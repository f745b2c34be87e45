"""torch's arithmetic on many gradients at a time: see hvdlite.adapter.gradients.Batched."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hvdlite.adapter.compression.methods import Momentum

Tensors = Sequence[torch.Tensor]


def add_momentum(gradients: Tensors, velocities: Tensors, momentum: Momentum) -> Tensors:
    given = list(gradients)
    old = [
        v if v.shape == g.shape else v.view(g.shape) for g, v in zip(given, velocities, strict=True)
    ]
    new = torch._foreach_mul(old, momentum.factor)
    torch._foreach_add_(new, given, alpha=momentum.factor if momentum.nesterov else 1.0)
    for gradient, velocity in zip(given, new, strict=True):
        gradient.copy_(gradient + velocity if momentum.nesterov else velocity)
    return [velocity.view(-1) for velocity in new]


def are_finite(gradients: Tensors) -> bool:
    sums = [each.sum(dtype=torch.promote_types(each.dtype, torch.float32)) for each in gradients]
    return bool(torch.stack([each.cpu().double() for each in sums]).isfinite().all())
