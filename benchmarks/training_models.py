"""What is trained: a model, and its batch. Fixed seeds, so that all ranks and all ways begin
alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import workloads

Loss = Callable[[], torch.Tensor]


class _Given(torch.autograd.Function):
    """A loss whose gradients cost nothing: what is left is their way to the other ranks."""

    @staticmethod
    def forward(ctx: Any, gradients: list[torch.Tensor], *parameters: torch.Tensor) -> torch.Tensor:
        ctx.gradients = gradients
        return parameters[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: torch.Tensor) -> tuple[Any, ...]:
        # Tensors of their own on the same memory: autograd keeps what nobody else holds, and copies
        # the rest.
        return None, *[gradient.detach() for gradient in ctx.gradients]


class Resnet50(torch.nn.Module):
    """ResNet-50's 161 gradients, 25.6 million numbers, without its arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        shapes = [shape for _, shape in workloads.resnet50()]
        self.all = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]
        )
        self.gradients = [torch.ones(shape) for shape in shapes]

    def forward(self, _: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _Given.apply(self.gradients, *self.all)  # type: ignore[no-untyped-call]
        return result


class Transformer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
        self.words = torch.nn.Embedding(2000, 256)
        self.layers = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.out = torch.nn.Linear(256, 2000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(self.layers(self.words(x)))
        return result


def _mlp() -> torch.nn.Module:
    layers = [m for _ in range(3) for m in (torch.nn.Linear(2048, 2048), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers[:-1])


def _conv() -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for inputs, outputs, stride in (
        (3, 32, 1),
        (32, 64, 2),
        (64, 128, 2),
        (128, 256, 2),
        (256, 256, 1),
    ):
        layers += [
            torch.nn.Conv2d(inputs, outputs, 3, stride, 1),
            torch.nn.BatchNorm2d(outputs),
            torch.nn.ReLU(),
        ]
    return torch.nn.Sequential(
        *layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(256, 10)
    )


#: name: how to make the model, its input, and the loss of its output
WORKLOADS: dict[
    str,
    tuple[Callable[[], torch.nn.Module], Callable[[], torch.Tensor], Callable[[Any], torch.Tensor]],
] = {
    "resnet50": (Resnet50, lambda: torch.zeros(1), lambda y: y),
    "mlp": (_mlp, lambda: torch.randn(64, 2048), lambda y: y.pow(2).mean()),
    "conv": (
        _conv,
        lambda: torch.randn(16, 3, 32, 32),
        lambda y: F.cross_entropy(y, torch.arange(16) % 10),
    ),
    "transformer": (
        Transformer,
        lambda: torch.randint(2000, (8, 64)),
        lambda y: F.cross_entropy(y.flatten(0, 1), torch.arange(512)),
    ),
}
