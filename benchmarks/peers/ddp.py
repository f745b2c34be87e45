"""torch's DistributedDataParallel over gloo, gradients as views of its buckets: a step without a
computation, whose gradients are there already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from peers import Unsupported, gloo
from peers.gloo import buffer, fill, start, stop

__all__ = ["allreduce", "buffer", "fill", "first", "start", "step", "stop"]

_models: dict[int, Any] = {}  # by the identity of the dict of its gradients
_parameters: dict[int, torch.Tensor] = {}  # by the address of their gradients


class _Loss(torch.autograd.Function):
    """Its backward pass hands out the gradients that its forward pass has got."""

    @staticmethod
    def forward(
        context: Any, gradients: Sequence[torch.Tensor], *parameters: torch.Tensor
    ) -> torch.Tensor:
        context.gradients = gradients
        return torch.zeros(())

    @staticmethod
    def backward(context: Any, *_: Any) -> Any:
        # Tensors that autograd may keep instead of copying them, as those of a computation.
        return (None, *(gradient.detach() for gradient in context.gradients))


class _Model(torch.nn.Module):
    def __init__(self, gradients: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._gradients = gradients
        self.weights = torch.nn.ParameterList(torch.zeros_like(each) for each in gradients)

    def forward(self) -> torch.Tensor:
        loss: torch.Tensor = _Loss.apply(self._gradients, *self.weights)
        return loss


def allreduce(tensor: Any, name: str) -> None:
    raise Unsupported("DistributedDataParallel reduces gradients of a model only")


def step(tensors: dict[str, Any]) -> None:
    if id(tensors) not in _models:
        _models[id(tensors)] = _wrapped(list(tensors.values()))
    model = _models[id(tensors)]
    model.zero_grad()
    model().backward()


def _wrapped(gradients: list[torch.Tensor]) -> Any:
    model = _Model(gradients)
    for gradient, weight in zip(gradients, model.weights, strict=True):
        _parameters[gradient.data_ptr()] = weight
    return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)


def first(tensor: torch.Tensor) -> float:
    """The sum of what it had on each rank: the model's gradient is the average."""
    weight = _parameters[tensor.data_ptr()]
    assert weight.grad is not None
    return gloo.first(weight.grad) * dist.get_world_size()
