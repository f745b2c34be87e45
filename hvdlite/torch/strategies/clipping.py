"""Clipping by the norm of all gradients, at the place where they are those of all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Max, Sum
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.torch.distributed_optimizer import Distributed
from hvdlite.torch.ops import OPS

_FLOOR = 1e-6  # as torch.nn.utils.clip_grad_norm_


def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0,
                    sharded: bool = False,
                    process_set: ProcessSet = global_process_set) -> torch.Tensor:  # fmt: skip
    """Scales gradients in place so that the norm of all of them together is at most `max_norm`;
    returns the norm that it was.

    `parameters`: a DistributedOptimizer, whose gradients are reduced first (step() does not reduce
    them again), or parameters, or one. Reduced gradients are the same on all ranks, so nothing is
    sent. With `sharded` each rank has another part of the gradients, and one number is summed over
    the ranks of `process_set`.
    """
    gradients = [p.grad for p in _reduced(parameters) if p.grad is not None]
    norm_type = float(norm_type)
    with torch.no_grad():
        norm = _norm(gradients, norm_type)
        if sharded:
            norm = _over_all(norm, norm_type, process_set)
        factor = torch.clamp(max_norm / (norm + _FLOOR), max=1.0)
        for device in {gradient.device for gradient in gradients}:
            here = [gradient for gradient in gradients if gradient.device == device]
            torch._foreach_mul_(here, factor.to(device))
    return norm


def _reduced(parameters: Any) -> Iterable[torch.Tensor]:
    if isinstance(parameters, torch.Tensor):
        return [parameters]
    if not isinstance(parameters, torch.optim.Optimizer):
        return list(parameters)
    if isinstance(parameters, Distributed) and not parameters._hvd.synchronized:
        parameters._hvd.meet(None)
    groups: list[dict[str, Any]] = parameters.__dict__["param_groups"]
    return [parameter for group in groups for parameter in group["params"]]


def _norm(gradients: list[torch.Tensor], norm_type: float) -> torch.Tensor:
    if not gradients:
        return torch.zeros(())
    norms = torch._foreach_norm(gradients, norm_type)
    together = torch.stack([norm.to(norms[0].device) for norm in norms])
    return torch.linalg.vector_norm(together, norm_type)


def _over_all(norm: torch.Tensor, norm_type: float, process_set: ProcessSet) -> torch.Tensor:
    """The norm of a vector from those of its parts."""
    mine = norm.double()
    if norm_type == float("inf"):
        return OPS.run_one(mine, ALLREDUCE, "clip_grad_norm", process_set, Max).to(norm.dtype)
    total = OPS.run_one(mine**norm_type, ALLREDUCE, "clip_grad_norm", process_set, Sum)
    return (total ** (1.0 / norm_type)).to(norm.dtype)
